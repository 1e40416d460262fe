// The picture of a report for the guides: node picture.js REPORT.html PICTURE.png [WIDTH HEIGHT].

import { resolve } from 'node:path';

import { launch, open } from './browser.js';

const [report, picture, width = '1200', height = '1000'] = process.argv.slice(2);
const browser = await launch();
const { page } = await open(browser, resolve(report), { viewport: { width: Number(width), height: Number(height) } });
await page.screenshot({ path: picture });
await browser.close();
