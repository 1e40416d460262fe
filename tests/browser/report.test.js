// What a report promises, checked in headless Chromium: `make browser-test`.
//
// PAGES is a folder of reports that `pages.sh` has made: `gallery.html` holds every piece with known numbers, the others
// come from commands. Pictures of each page are left beside it, to be looked at.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { hover, launch, open, painted } from './browser.js';

const PAGES = resolve(process.env.PAGES ?? '../../target/browser');
const files = readdirSync(PAGES).filter(name => name.endsWith('.html')).map(name => join(PAGES, name));
const gallery = join(PAGES, 'gallery.html');
let browser;

before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

/** A test with a page of its own, which must have nothing to complain about in the end. */
function on(file, name, check, settings) {
  test(name, async () => {
    const opened = await open(browser, file, settings);
    try {
      await check(opened.page);
      assert.deepEqual(opened.complaints, []);
    } finally {
      await opened.close();
    }
  });
}

const picture = (page, file, name) => page.screenshot({ path: file.replace(/html$/, `${name}.png`), fullPage: true });
const background = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const clipboard = page => page.evaluate(() => navigator.clipboard.readText());
const WHITE = 'rgb(255, 255, 255)';

test('there are pages to look at', () => assert.ok(files.includes(gallery), `${files}`));

for (const file of files) {
  describe(basename(file), () => {
    // One page for all that a reader does at a desk, one after the other.
    let desk, page;
    before(async () => { desk = await open(browser, file); page = desk.page; });
    after(() => desk.close());

    test('is below 3 MB', () => assert.ok(statSync(file).size < 3 << 20));

    test('every chart is drawn and says what it shows', async () => {
      for (const chart of await painted(page)) assert.ok(chart.pixels > 1000 && chart.colors > 5, JSON.stringify(chart));
      const labels = await page.$$eval('.plot', plots => plots.map(plot => plot.getAttribute('aria-label')));
      for (const label of labels) assert.match(label, /\w+: .+\..+/);
      await picture(page, file, 'light');
    });

    test('every chart has a tooltip', async () => {
      for (const plot of await page.$$('.plot')) {
        const text = await hover(page, plot);
        assert.match(text, /\d/, await plot.getAttribute('aria-label'));
      }
    });

    test('every table can be sorted and copied', async () => {
      for (const figure of await page.$$('figure.table')) {
        await figure.$eval('[data-do=copy-table]', button => button.click());
        await page.waitForFunction(button => button.textContent === 'Copied', await figure.$('[data-do=copy-table]'));
        const lines = (await clipboard(page)).replace(/\n$/, '').split('\n');
        assert.equal(lines.length, 1 + (await figure.$$('tbody tr')).length);
        assert.equal(new Set(lines.map(line => line.split('\t').length)).size, 1);
        const head = await figure.$('th');
        for (const order of ['ascending', 'descending']) {
          await head.$eval('button', button => button.click());
          assert.equal(await head.getAttribute('aria-sort'), order);
        }
      }
    });

    test('the numbers inside are JSON and can be taken out', async () => {
      const inside = await page.$eval('#data', script => script.textContent);
      assert.equal(typeof JSON.parse(inside), 'object');
      await page.click('[data-do=copy-data]');
      await page.waitForFunction(() => document.querySelector('[data-do=copy-data]').textContent === 'Copied');
      assert.equal(await clipboard(page), inside);
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('[data-do=save-data]')]);
      assert.equal(readFileSync(await download.path(), 'utf8'), inside);
      assert.ok((await page.$eval('footer', foot => foot.innerText)).includes('veridical '));
    });

    test('the switch changes page and charts, and is kept', async () => {
      const images = () => page.$$eval('.plot', plots => plots.map(plot => plot.chart.echarts.getDataURL({ pixelRatio: 1 })));
      assert.equal(await background(page), WHITE);
      const light = await images();
      await page.click('[data-do=theme]');
      assert.notEqual(await background(page), WHITE);
      const dark = await images();
      light.forEach((image, i) => assert.notEqual(image, dark[i]));
      await page.reload();
      assert.notEqual(await background(page), WHITE);
      await picture(page, file, 'dark');
      await page.click('[data-do=theme]');
      assert.equal(await background(page), WHITE);
    });

    test('there was no error and no request', () => assert.deepEqual(desk.complaints, []));

    on(file, 'a phone scrolls down only', async page => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `${width}`);
      for (const chart of await painted(page)) assert.ok(chart.pixels > 1000, JSON.stringify(chart));
      await picture(page, file, 'phone');
    }, { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });

    for (const width of [1280, 390]) {
      on(file, `at ${width} px no table hides its most important column`, async page => {
        const hidden = await page.$$eval('figure.table', tables => tables.flatMap(figure => {
          const heads = [...figure.querySelectorAll('th')];
          const key = heads.find(head => head.classList.contains('key')) ?? heads[Math.min(1, heads.length - 1)];
          const scroll = figure.querySelector('.scroll').getBoundingClientRect();
          const [first, { left, right }] = [heads[0], key].map(head => head.getBoundingClientRect());
          const seen = right <= Math.min(scroll.right, innerWidth) + 1 && left >= Math.max(0, scroll.left) - 1 && (key === heads[0] || left >= first.right - 1);
          return seen ? [] : [`${figure.querySelector('h3').textContent}, ${key.textContent}: ${left} to ${right} of ${scroll.left} to ${scroll.right}`];
        }));
        assert.deepEqual(hidden, []);
      }, { viewport: { width, height: 844 } });
    }

    on(file, 'a dark setting is followed, and paper is white, without buttons, with whole charts', async page => {
      assert.notEqual(await background(page), WHITE);
      await page.pdf({ path: file.replace(/html$/, 'pdf'), format: 'A4' });
      await page.setViewportSize({ width: 700, height: 900 });
      await page.emulateMedia({ media: 'print' });
      assert.equal(await background(page), WHITE);
      const shown = await page.$$eval('.bar, .tools, .all, .command button', all => all.filter(one => one.offsetParent !== null).length);
      assert.equal(shown, 0);
      const wide = await page.$$eval('canvas', all => all.map(one => one.getBoundingClientRect().right));
      wide.forEach(right => assert.ok(right <= 700, `${right}`));
    }, { colorScheme: 'dark' });
  });
}

describe('pieces with known numbers', () => {
  const figure = (page, caption) => page.locator('figure', { has: page.getByRole('heading', { name: caption, exact: true }) });
  const shown = (page, caption) => figure(page, caption).locator('tbody tr:visible td:first-child').allInnerTexts();

  on(gallery, 'a table is sorted by value, and what is no number comes last', async page => {
    const head = name => figure(page, 'Treatments').getByRole('button', { name, exact: true });
    await head('not retrained').click();
    assert.deepEqual(await shown(page, 'Treatments'), ['raw h', 'phi', 'aligned h', 'average']);
    await head('not retrained').click();
    assert.deepEqual(await shown(page, 'Treatments'), ['aligned h', 'phi', 'raw h', 'average']);
    await head('verdict').click();
    assert.deepEqual(await shown(page, 'Treatments'), ['aligned h', 'average', 'phi', 'raw h']);
    await head('treatment').click();
    assert.deepEqual(await shown(page, 'Treatments'), ['aligned h', 'average', 'phi', 'raw h']);
  });

  on(gallery, 'a long table shows its first rows, sorted over all', async page => {
    const items = 'Changed items by weight';
    assert.equal((await shown(page, items)).length, 6);
    await figure(page, items).getByRole('button', { name: 'weight', exact: true }).click();
    assert.deepEqual((await shown(page, items)).slice(0, 2), ['item 49', 'item 48']);
    assert.equal((await shown(page, items)).length, 6);
    await figure(page, items).getByRole('button', { name: 'Show all 50 rows' }).click();
    assert.equal((await shown(page, items)).length, 50);
  });

  on(gallery, 'a table is copied with full numbers, an interval as three columns', async page => {
    await figure(page, 'Treatments').getByRole('button', { name: 'Copy' }).click();
    await figure(page, 'Treatments').getByRole('button', { name: 'Copied' }).waitFor();
    assert.deepEqual((await clipboard(page)).split('\n').slice(0, 2), [
      'treatment\tnot retrained\tretrained\tretrained low\tretrained high\tD\tverdict',
      'raw h\t0.217\t0.898\t0.892\t0.904\t32\tblocked',
    ]);
  });

  test('what is decided and what is lost are key columns', async () => {
    for (const [name, caption, column] of [['published', 'Limits', 'outcome'], ['stopped', 'Limits', 'outcome'], ['stability', 'Treatments', 'not retrained']]) {
      for (const width of [1280, 390]) {
        const { page, close } = await open(browser, join(PAGES, `${name}.html`), { viewport: { width, height: 844 } });
        const head = figure(page, caption).locator('th.key');
        assert.equal(await head.innerText(), column);
        const cells = await figure(page, caption).locator('tbody tr:visible td:nth-child(2)').evaluateAll(all => all.map(cell => cell.getBoundingClientRect().right));
        assert.ok(cells.length > 2);
        cells.forEach(right => assert.ok(right <= width, `${name}: ${right} of ${width}`));
        await close();
      }
    }
  });

  /** The value axes of a chart by caption: where they begin and end, and their labels. */
  const scales = (page, caption) => figure(page, caption).locator('.plot').evaluate(place => ['xAxis', 'yAxis'].map(name => {
    const { scale } = place.chart.echarts.getModel().getComponent(name).axis;
    return { type: scale.type, extent: scale.getExtent(), labels: scale.getTicks().map(tick => tick.value) };
  }).filter(({ type }) => type !== 'ordinal'));

  on(join(PAGES, 'evaluate.html'), 'the axis of AUC ends at 1, and no share goes beyond', async page => {
    const [{ extent, labels }] = await scales(page, 'auc');
    assert.deepEqual([extent, labels], [[0, 1], [0, 0.25, 0.5, 0.75, 1]]);
    for (const caption of await page.locator('figure:has(.plot) h3').allInnerTexts()) {
      for (const { extent: [low, high] } of await scales(page, caption)) assert.ok(low >= 0 && high <= 1, `${caption}: ${low} to ${high}`);
    }
  });

  on(join(PAGES, 'network.html'), 'the axis of epochs ends at whole numbers, and accuracy at 1', async page => {
    for (const measure of ['loss', 'accuracy']) {
      const [epochs, values] = await scales(page, `${measure} over epochs`);
      assert.deepEqual(epochs.extent, [1, 3]);
      assert.deepEqual(epochs.labels, [1, 2, 3]);
      assert.ok(values.extent[0] >= 0 && (measure === 'loss' || values.extent[1] <= 1), `${values.extent}`);
    }
  });

  on(gallery, 'a chart is copied as numbers and saved as a picture', async page => {
    const heat = figure(page, 'CKA of all pairs of runs');
    await heat.getByRole('button', { name: 'Copy' }).click();
    await heat.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal((await clipboard(page)).split('\n')[2], 'run 1\t0.95\t\t0.99\t0.94\t0.96\t0.98');
    const [download] = await Promise.all([page.waitForEvent('download'), heat.getByRole('button', { name: 'PNG' }).click()]);
    assert.equal(download.suggestedFilename(), 'cka-of-all-pairs-of-runs.png');
    assert.equal(readFileSync(await download.path()).toString('latin1', 1, 4), 'PNG');
  });

  on(gallery, 'tooltips name the values and show names as text', async page => {
    const tip = async caption => hover(page, await figure(page, caption).locator('.plot').elementHandle());
    assert.match(await tip('Inner products'), /<h, h'>: [\s\S]*run 1 & <b>its name<\/b>/);
    assert.match(await tip('Accuracy after a refresh'), /raw h\s+retrained\s+89\.8 % \[89\.2 %, 90\.4 %\]\s+not retrained\s+21\.7 %/);
    assert.match(await tip('Neighbors kept, day by day'), /day: \d+\s+this model\s+0\.\d+ \[0\.\d+, 0\.\d+\]/);
    assert.match(await tip('Accuracy over runs'), /median\s+\d/);
    assert.match(await tip('Estimated against exact kernel values'), /items \d+ and \d+\s+pairs\s+k\(x, y\)\s+0\.\d+/);
    assert.match(await tip('CKA of all pairs of runs'), /run\s+run \d\s+compared with\s+run \d\s+CKA\s+0\.9\d/);
  });

  on(gallery, 'a click on the legend hides a series, and a new theme keeps it hidden', async page => {
    for (const caption of ['Error of the kernel', 'Neighbors kept, day by day', 'Norms of two runs', 'Inner products', 'Accuracy after a refresh']) {
      const plot = figure(page, caption).locator('.plot');
      const seen = () => plot.evaluate(place => [place.chart.echarts.getOption().legend[0].selected, place.chart.echarts.getDataURL()]);
      const [, before] = await seen();
      await plot.click({ position: { x: 12, y: 15 } });
      const [selected, now] = await seen();
      assert.equal(Object.values(selected).filter(is => !is).length, 1, caption);
      assert.notEqual(now, before);
    }
    await page.click('[data-do=theme]');
    const kept = await figure(page, 'Error of the kernel').locator('.plot').evaluate(place => place.chart.echarts.getOption().legend[0].selected);
    assert.equal(kept.iid, false);
  });

  on(gallery, 'a rectangle zooms in and Reset shows everything again', async page => {
    const error = figure(page, 'Estimated against exact kernel values');
    const plot = error.locator('.plot');
    const range = () => plot.evaluate(place => place.chart.echarts.getOption().dataZoom.slice(0, 2).map(({ start, end }) => end - start));
    assert.deepEqual(await range(), [100, 100]);
    await error.getByRole('button', { name: 'Zoom' }).click();
    const box = await plot.boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.3);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.6, { steps: 5 });
    await page.mouse.up();
    const extent = () => plot.evaluate(place => place.chart.echarts.getModel().getComponent('xAxis').axis.scale.getExtent());
    const [low, high] = await extent();
    assert.ok(high - low < 0.8, `${[low, high]}`);
    await error.getByRole('button', { name: 'Reset' }).click();
    assert.ok((await extent())[1] > high);
  });

  on(gallery, 'the command is copied as it was typed', async page => {
    await page.click('[data-do=copy-command]');
    await page.waitForFunction(() => document.querySelector('[data-do=copy-command]').textContent === 'Copied');
    assert.match(await clipboard(page), /^veridical stability monday\.parquet .*--html report\.html$/);
  });

  on(gallery, 'seeds keep all their digits', async page => {
    assert.ok((await page.$eval('#data', script => script.textContent)).includes('18446744073709551615'));
  });
});
