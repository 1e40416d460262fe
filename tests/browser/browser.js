// One headless Chromium, and pages that remember what went wrong in them.

import { chromium } from 'playwright-core';

const EXECUTABLE = process.env.CHROMIUM || '/usr/bin/chromium';

export async function launch() {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: EXECUTABLE, args });
}

/** Opens a report; `complaints` holds console errors, requests and dialogs, of which there must be none. */
export async function open(browser, file, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...settings });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  const address = new URL(`file://${file}`).href;
  const complaints = [];
  page.on('console', message => ['error', 'warning'].includes(message.type()) && complaints.push(`console: ${message.text()}`));
  page.on('pageerror', error => complaints.push(`error: ${error.message}`));
  page.on('dialog', async dialog => { complaints.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  page.on('request', request => {
    const url = request.url();
    if (url.split('#')[0] !== address && !/^(data|blob):/.test(url)) complaints.push(`request: ${url}`);
  });
  await page.goto(address);
  return { page, complaints, close: () => context.close() };
}

/** For every chart: how many pixels are painted, and in how many colors. */
export const painted = page => page.$$eval('.plot', plots => plots.map(plot => {
  const canvas = plot.querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 0) continue;
    pixels += 1;
    if (seen.size < 500) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return { caption: plot.closest('figure').querySelector('h3').textContent, pixels, colors: seen.size };
}));

/** The text of the tooltip that a chart shows now, if it shows any. */
export const tooltip = plot => plot.evaluate(place => {
  const shown = [...place.children].filter(child => !child.querySelector('canvas'))
    .find(child => getComputedStyle(child).visibility === 'visible' && Number(getComputedStyle(child).opacity) > 0);
  return shown?.innerText ?? '';
});

/** Moves the mouse over a chart until a tooltip appears; its text. */
export async function hover(page, plot) {
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  const spots = await plot.evaluate(spotsOf);
  for (let i = 1; i < 12; i += 1) for (let j = 1; j < 12; j += 1) spots.push([box.width * j / 12, box.height * i / 12]);
  for (const [x, y] of spots) {
    await page.mouse.move(box.x + x - 1, box.y + y);
    await page.mouse.move(box.x + x, box.y + y);
    const text = await tooltip(plot);
    if (text) return text;
  }
  return '';
}

/** Where the first points of a scatter plot lie: they are small. */
function spotsOf(place) {
  if (place.dataset.kind !== 'scatter') return [];
  const { series } = JSON.parse(place.nextElementSibling.textContent);
  return series[0].points.slice(0, 3).map(([x, y]) => place.chart.echarts.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [x, y]));
}
