'use strict';
// Theme, tables, copying and saving. The page is readable without it.

const report = {
  /** Callbacks for a change of theme. */
  redraw: [],
  escape: text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`),
  /** Formats numbers as `html.rs` does: about four digits, `-` if not finite. */
  number(x) {
    if (typeof x !== 'number' || !Number.isFinite(x)) return '-';
    const size = Math.abs(x);
    if (Number.isInteger(x) && size < 1e15) return x.toLocaleString('en-US');
    if (size >= 1e6 || size < 1e-4) return x.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
    return (+x.toPrecision(4)).toLocaleString('en-US', { maximumFractionDigits: 8 });
  },
  isDark() {
    return getComputedStyle(document.documentElement).colorScheme === 'dark' ||
      (!document.documentElement.dataset.theme && !matchMedia('print').matches &&
        matchMedia('(prefers-color-scheme: dark)').matches);
  },
  async copy(text, button) {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Local files may not have the clipboard API; the legacy method needs a selection.
      const area = document.createElement('textarea');
      area.value = text;
      area.style.cssText = 'position:fixed;opacity:0';
      document.body.append(area);
      area.select();
      copied = document.execCommand('copy');
      area.remove();
    }
    report.say(button, copied ? 'Copied' : 'Not allowed');
  },
  say(button, word) {
    button.dataset.name ??= button.textContent;
    button.textContent = word;
    setTimeout(() => { button.textContent = button.dataset.name; }, 1500);
  },
  save(address, name) {
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    link.click();
  },
  /** A file name from a caption. */
  fileName: text => text.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 60) || 'report',
  /** Rows of cells as text for a spreadsheet. */
  tabbed: rows => rows.map(row => row.map(cell => String(cell ?? '').replace(/[\t\r\n]+/g, ' ')).join('\t')).join('\n') + '\n',
};

// Storage may be blocked; the theme switch then works until the page is closed.
const kept = {
  get() { try { return localStorage.getItem('veridical-theme'); } catch { return null; } },
  set(theme) { try { localStorage.setItem('veridical-theme', theme); } catch { /* not stored */ } },
};
if (['light', 'dark'].includes(kept.get())) document.documentElement.dataset.theme = kept.get();

function sortKey(cell) {
  const { value, rank } = cell.dataset;
  if (value !== undefined) return Number(value);
  if (rank !== undefined) return Number(rank);
  return cell.classList.contains('number') ? null : cell.textContent.trim(); // `-`, `undefined`
}

/** Numbers before text, empty cells last, in either direction. */
function compare(a, b, direction) {
  const isEmpty = key => key === null || key === '' || key === '-';
  if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
  if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
  return direction * (typeof a === 'number' ? a - b : a.localeCompare(b, 'en', { numeric: true }));
}

function sortTable(head) {
  const table = head.closest('table');
  const column = [...head.parentElement.children].indexOf(head);
  const direction = head.ariaSort === 'ascending' ? -1 : 1;
  for (const other of head.parentElement.children) other.removeAttribute('aria-sort');
  head.ariaSort = direction > 0 ? 'ascending' : 'descending';
  const body = table.tBodies[0];
  const hidden = [...body.rows].map(row => row.classList.contains('more'));
  const rows = [...body.rows].map(row => [sortKey(row.cells[column]), row]);
  rows.sort(([a], [b]) => compare(a, b, direction));
  rows.forEach(([, row], i) => row.classList.toggle('more', hidden[i]));
  body.append(...rows.map(([, row]) => row));
}

/** All rows in full precision; an interval takes three columns. */
function tableRows(table) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].map((head, column) => {
    const name = head.textContent.trim();
    const wide = rows.some(row => 'interval' in row.cells[column].dataset);
    return { wide, names: wide ? [name, `${name} low`, `${name} high`] : [name] };
  });
  const cells = (cell, { wide }) => {
    const { value, low, high } = cell.dataset;
    const text = value ?? (cell.classList.contains('number') ? '' : cell.textContent.trim());
    return wide ? [text, low, high] : [text];
  };
  return [heads.flatMap(head => head.names),
    ...rows.map(row => heads.flatMap((head, column) => cells(row.cells[column], head)))];
}

const actions = {
  theme() {
    const theme = report.isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    kept.set(theme);
    report.redraw.forEach(draw => draw());
  },
  sort: button => sortTable(button.closest('th')),
  'copy-table': button => report.copy(report.tabbed(tableRows(button.closest('figure').querySelector('table'))), button),
  'all-rows'(button) {
    button.closest('figure').classList.add('open');
    button.remove();
  },
  'copy-command': button => report.copy(button.parentElement.querySelector('code').textContent, button),
  'copy-data': button => report.copy(document.getElementById('data').textContent, button),
  'save-data'() {
    const blob = new Blob([document.getElementById('data').textContent], { type: 'application/json' });
    const address = URL.createObjectURL(blob);
    report.save(address, `${report.fileName(document.title)}.json`);
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  },
};

document.addEventListener('click', event => {
  const button = event.target.closest('button[data-do]');
  if (button) actions[button.dataset.do]?.(button);
});
for (const query of ['(prefers-color-scheme: dark)', 'print']) {
  matchMedia(query).addEventListener('change', () => report.redraw.forEach(draw => draw()));
}
