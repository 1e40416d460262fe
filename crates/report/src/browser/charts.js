'use strict';
// Converts the numbers of a chart (`chart/*.rs`) to ECharts options.

const { number, escape } = report;
const NARROW = 560;
/** Printable width in pixels that fits both A4 and Letter. */
const PAPER = 680;
/** The name of the series of limits and diagonals, which is not in the legend. */
const OWN = '\u0000own';

/** The colors of the current theme. */
function colors() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const named = name => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ['ink', 'soft', 'faint', 'line', 'back', 'panel', 'low', 'mid', 'high', 'below', 'center', 'above', 'bad'];
  const found = Object.fromEntries(names.map(name => [name, named(name)]));
  found.series = Array.from({ length: 8 }, (_, i) => named(`c${i}`));
  probe.remove();
  return found;
}

const show = (axis, x) => axis.names ? axis.names[x] ?? '' : axis.percent && Number.isFinite(x) ? `${number(100 * x)} %` : number(x);
const withInterval = (axis, value, [low, high]) =>
  show(axis, value) + (Number.isFinite(low) && Number.isFinite(high) ? ` [${show(axis, low)}, ${show(axis, high)}]` : '');
const shorten = (text, most) => text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;

/** A tooltip: a heading and lines of color, name and value. Untrusted text is escaped here. */
function tip(heading, lines) {
  const line = ({ color, name, value }) => {
    const dot = color ? `<span style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:7px;background:${color}"></span>` : '';
    return `<div style="display:flex;justify-content:space-between;gap:18px"><span>${dot}${escape(name)}</span><b>${escape(value)}</b></div>`;
  };
  const top = heading ? `<div style="font-weight:600;margin-bottom:3px">${escape(heading)}</div>` : '';
  return top + lines.map(line).join('');
}

/** The options that all charts with two axes share. */
function frame(c, { x, y, names, width, tooltip }) {
  const label = { color: c.soft, fontSize: 12 };
  const many = names.length > 1;
  const zoom = { type: 'inside', filterMode: 'none', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: 'ctrl', preventDefaultMouseMove: false };
  return {
    color: c.series,
    backgroundColor: 'transparent',
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: c.ink },
    grid: { left: 4, right: 18, top: (many ? 44 : 18) + (x.marks?.length ? 8 : 0), bottom: 4, outerBoundsMode: 'same', outerBoundsContain: 'all' },
    legend: {
      show: many, type: 'scroll', top: 4, left: 0, icon: 'roundRect', itemWidth: 12, itemHeight: 12, itemGap: 16,
      data: names, textStyle: { color: c.ink, fontSize: 12.5 }, inactiveColor: c.faint, pageIconColor: c.soft,
      pageTextStyle: { color: c.soft }, formatter: name => shorten(name, Math.max(18, Math.round(width / 18))),
    },
    tooltip: {
      confine: true, appendTo: undefined, backgroundColor: c.back, borderColor: c.line, borderWidth: 1, padding: [8, 11],
      textStyle: { color: c.ink, fontSize: 12.5 }, extraCssText: 'box-shadow:0 4px 18px rgba(0,0,0,.14);border-radius:8px;max-width:340px;white-space:normal',
      axisPointer: { type: 'line', lineStyle: { color: c.faint, type: 'dashed' } },
      ...tooltip,
    },
    toolbox: { itemSize: 0, showTitle: false, feature: { dataZoom: { filterMode: 'none' } } },
    dataZoom: [{ ...zoom, xAxisIndex: 0 }, { ...zoom, yAxisIndex: 0 }],
    xAxis: axis(x, 'x'),
    yAxis: axis(y, 'y'),
  };

  function axis(axis, side) {
    const common = {
      name: shorten(axis.name ?? '', side === 'x' ? 90 : 44), nameLocation: 'middle', nameGap: side === 'x' ? 30 : 12,
      nameTextStyle: label, axisTick: { show: false }, axisLine: { show: false, lineStyle: { color: c.line } },
      ...(side === 'y' ? { nameRotate: 90 } : {}),
    };
    if (axis.categories) {
      const most = side === 'y' ? Math.max(14, Math.round(width / 20)) : 16;
      return {
        ...common, type: 'category', data: axis.categories, inverse: side === 'y',
        axisLine: { show: true, lineStyle: { color: c.line } }, splitLine: { show: false },
        axisLabel: { ...label, color: c.ink, hideOverlap: side === 'x', formatter: name => shorten(name, most), ...axis.label },
      };
    }
    return {
      ...common, type: axis.log ? 'log' : 'value', logBase: axis.base, scale: !axis.zero, splitNumber: width < NARROW && side === 'x' ? 3 : 5,
      ...(axis.bounds ? bounded(axis) : {}),
      ...(Number.isFinite(axis.end) ? { max: axis.end } : {}),
      ...(axis.integers ? { min: ({ min }) => Math.floor(min), max: ({ max }) => Math.ceil(max), minInterval: 1 } : {}),
      ...(axis.whole ? { min: 0, max: 1, interval: 0.25 } : {}),
      ...(axis.names ? { min: 0, max: Math.max(1, axis.names.length - 1), minInterval: 1 } : {}),
      axisLabel: { ...label, hideOverlap: true, formatter: value => show(axis, value) },
      splitLine: { lineStyle: { color: c.line } }, minorTick: { show: false },
    };
  }
}

/** Ends of an axis that does not go beyond what its values can be, where rounding to the next label would. */
function bounded({ bounds: [least, most], zero }) {
  const room = ({ min, max }) => 0.35 * (max - (zero ? Math.min(0, min) : min));
  return {
    min: range => Number.isFinite(least) && (range.min - room(range) <= least || range.min === range.max) ? least : null,
    max: range => Number.isFinite(most) && (range.max + room(range) >= most || range.min === range.max) ? most : null,
  };
}

/** The limits on both axes: lines, and invisible points that keep them in view. */
function marks(c, x, y, anchor, top = 'end') {
  const lines = [
    ...(x.marks ?? []).map(mark => ({ xAxis: mark.value, name: mark.name, position: top })),
    ...(y.marks ?? []).map(mark => ({ yAxis: mark.value, name: mark.name, position: 'insideEndTop' })),
  ];
  if (!lines.length || !anchor) return [];
  return [{
    name: OWN, type: 'scatter', symbolSize: 0, silent: true, z: 5,
    data: lines.map(line => [line.xAxis ?? anchor[0], line.yAxis ?? anchor[1]]),
    markLine: {
      silent: true, symbol: 'none', lineStyle: { color: c.ink, type: [5, 4], width: 1.2 },
      data: lines.map(({ position, name, ...line }) => ({
        ...line, label: { position, color: c.ink, fontSize: 11.5, formatter: () => name },
      })),
    },
  }];
}

/** Values outside of a logarithmic axis are omitted. */
const on = (axis, x) => axis.log && !(x > 0) ? null : x;

/** Ticks at powers of 2 where powers of 10 would leave most of the chart empty. */
function based(axis, values) {
  if (!axis.log) return axis;
  const [low, high] = ends(values.filter(value => value > 0));
  return { ...axis, base: high / low < 100 ? 2 : 10 };
}

const ends = values => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

function line(numbers, c, width) {
  const { series } = numbers;
  const points = series.flatMap(one => one.points);
  const x = based(numbers.x, points.map(point => point[0])), y = based(numbers.y, points.flatMap(point => point.slice(1)));
  const banded = series.some(({ points }) => points.some(point => point.length > 2));
  const drawn = series.map((one, i) => {
    const points = one.points.map(([at, ...values]) => [on(x, at), ...values.map(value => on(y, value))]);
    const own = one.dots ? c.bad : one.dashed && banded ? c.soft : c.series[i % 8];
    return { ...one, points, color: own };
  });
  // Exceptions do not squeeze the rest: those far away stand at the edge, with their values in the tooltip.
  const usual = drawn.filter(one => !one.dots).flatMap(one => one.points.flatMap(([, ...values]) => values)).filter(Number.isFinite);
  const [least, most] = ends(usual), room = Math.max(0.25 * (most - least), 1e-3 * Math.abs(most));
  const [lowest, highest] = y.bounds ?? [];
  const edges = drawn.some(one => one.dots) && usual.length && !y.log ? [Math.max(least - room, lowest ?? -Infinity), Math.min(most + room, highest ?? Infinity)] : null;
  const placed = value => edges && value !== null ? Math.min(Math.max(value, edges[0]), edges[1]) : value;
  const lines = drawn.map(({ name, points, color, dashed, dots }) => ({
    name, type: 'line', data: points.map(([at, value]) => [at, dots ? placed(value) : value]), showSymbol: dots || points.length <= 40 && !(dashed && banded),
    symbol: dots ? 'diamond' : 'circle', symbolSize: dots ? 11 : 6, z: dots ? 4 : 2,
    itemStyle: { color: color }, lineStyle: { color: color, width: dots ? 0 : dashed ? 1.5 : 2, type: dashed ? 'dashed' : 'solid' }, connectNulls: false,
    emphasis: { focus: 'none' },
  }));
  const bands = banded ? drawn.map(({ name, points, color, dots }) => band(name, dots ? [] : points, color)) : [];
  const entry = item => {
    const [, value, ...interval] = drawn[item.seriesIndex - bands.length].points[item.dataIndex];
    return { color: item.color, name: item.seriesName, value: withInterval(y, value, interval) };
  };
  const option = frame(c, {
    x, y, width, names: series.map(({ name }) => name),
    tooltip: {
      trigger: 'axis',
      formatter: items => {
        const shown = items.filter(item => item.seriesType === 'line');
        return shown.length ? tip(`${x.name}: ${show(x, shown[0].value[0])}`, shown.map(entry)) : '';
      },
    },
  });
  if (edges) Object.assign(option.yAxis, { min: edges[0], max: edges[1], axisLabel: { ...option.yAxis.axisLabel, showMinLabel: false, showMaxLabel: false } });
  option.series = [...bands, ...lines, ...marks(c, x, y, drawn.flatMap(({ points }) => points).find(([a, b]) => a !== null && b !== null))];
  const head = ['series', x.name, y.name, ...(banded ? ['low', 'high'] : [])];
  const named = ([at, ...values]) => [x.names ? x.names[at] : at, ...values];
  return { option, rows: [head, ...series.flatMap(({ name, points }) => points.map(point => [name, ...named(point)]))] };
}

function band(name, points, color) {
  const whole = points.filter(point => point.every(value => value !== null));
  return {
    name, type: 'custom', silent: true, clip: true, z: 1, tooltip: { show: false },
    data: whole.map(([at, , low, high]) => [at, low, high]), encode: { x: 0, y: [1, 2] }, itemStyle: { color: color },
    renderItem(params, api) {
      if (params.context.drawn) return undefined;
      params.context.drawn = true;
      const there = whole.map(([at, , low]) => api.coord([at, low]));
      const back = whole.map(([at, , , high]) => api.coord([at, high])).reverse();
      return { type: 'polygon', silent: true, shape: { points: [...there, ...back] }, style: { fill: color, opacity: 0.17 } };
    },
  };
}

function density({ x, grid, series }, c, width) {
  const y = { name: 'density', zero: true };
  const drawn = series.map(({ name, density }, i) => ({
    name, type: 'line', data: grid.map((at, j) => [at, density[j]]), showSymbol: false, symbol: 'circle', itemStyle: { color: c.series[i % 8] },
    lineStyle: { width: 2, color: c.series[i % 8] }, areaStyle: { color: c.series[i % 8], opacity: series.length > 4 ? 0 : 0.1 },
    emphasis: { disabled: true },
  }));
  const option = frame(c, {
    x, y, width, names: series.map(({ name }) => name),
    tooltip: {
      trigger: 'axis',
      formatter: items => tip(`${x.name}: ${show(x, items[0].value[0])}`, items.filter(item => item.seriesName !== OWN)
        .map(item => ({ color: item.color, name: item.seriesName, value: number(item.value[1]) }))),
    },
  });
  option.series = [...drawn, ...marks(c, x, y, grid.length ? [grid[0], 0] : null)];
  return { option, rows: [[x.name, ...series.map(({ name }) => name)], ...grid.map((at, j) => [at, ...series.map(one => one.density[j])])] };
}

function histogram({ x, edges, series }, c, width) {
  const shares = series.length > 1;
  const y = { name: shares ? 'fraction of values' : 'values', zero: true, percent: shares };
  const height = ({ counts, n }, bin) => shares ? counts[bin] / Math.max(n, 1) : counts[bin];
  const names = series.map(({ name }) => name);
  const drawn = series.map((one, i) => ({
    name: one.name, type: 'custom', clip: true, encode: { x: [0, 1], y: 2 }, itemStyle: { color: c.series[i % 8] },
    data: one.counts.map((_, bin) => [edges[bin], edges[bin + 1], height(one, bin)]),
    renderItem(params, api) {
      const [left, top] = api.coord([api.value(0), api.value(2)]);
      const [right, bottom] = api.coord([api.value(1), 0]);
      const gap = right - left > 4 ? 1 : 0;
      return {
        type: 'rect', shape: { x: left, y: top, width: Math.max(right - left - gap, 0.5), height: bottom - top },
        style: { fill: c.series[i % 8], opacity: shares ? 0.5 : 0.85 },
      };
    },
  }));
  const option = frame(c, {
    x, y, width, names,
    tooltip: {
      trigger: 'item',
      formatter: ({ dataIndex: bin }) => tip(`${x.name}: ${show(x, edges[bin])} to ${show(x, edges[bin + 1])}`, series.map(({ name, counts, n }, i) =>
        ({ color: c.series[i % 8], name, value: `${number(counts[bin])} (${number(100 * counts[bin] / Math.max(n, 1))} %)` }))),
    },
  });
  option.series = [...drawn, ...marks(c, x, y, [edges[0], 0])];
  const rows = edges.slice(1).map((end, bin) => [edges[bin], end, ...series.map(({ counts }) => counts[bin])]);
  return { option, rows: [[`${x.name} from`, 'to', ...names], ...rows] };
}

function scatter({ diagonal, series, curves = [], ...axes }, c, width) {
  const all = series.flatMap(({ points }) => points).filter(([a, b]) => a !== null && b !== null);
  const x = based(axes.x, all.map(([a]) => a)), y = based(axes.y, all.map(([, b]) => b));
  const drawn = series.map(({ name, points }, i) => ({
    name, type: 'scatter', data: points.map(([a, b, label]) => ({ value: [on(x, a), on(y, b)], name: label })),
    symbolSize: all.length > 400 ? 5 : 8, itemStyle: { color: c.series[i % 8], opacity: all.length > 400 ? 0.5 : 0.8 },
  }));
  if (diagonal && all.length) {
    const [low, high] = ends(all.flatMap(([a, b]) => [a, b]));
    drawn.push({ name: OWN, type: 'line', silent: true, symbol: 'none', z: 1, data: [[low, low], [high, high]], lineStyle: { color: c.faint, width: 1.2, type: 'dashed' } });
  }
  // A gap between the whiskers of two points.
  const whiskers = series.flatMap(({ points, intervals = [] }, i) => intervals.length === 0 ? [] : [{
    name: OWN, type: 'line', silent: true, symbol: 'none', z: 1, connectNulls: false, lineStyle: { color: c.series[i % 8], width: 1.5 },
    data: intervals.flatMap(([low, high], k) => [[on(x, points[k][0]), low], [on(x, points[k][0]), high], [null, null]]),
  }]);
  const lines = curves.map(({ name, points }) => ({
    name, type: 'line', silent: true, symbol: 'none', z: 4, data: points.map(([a, b]) => [on(x, a), on(y, b)]), itemStyle: { color: c.ink },
    lineStyle: { color: c.ink, width: 2 },
  }));
  const interval = (at, k) => series[at]?.intervals?.[k] ?? [];
  const option = frame(c, {
    x, y, width, names: [...series, ...curves].map(({ name }) => name),
    tooltip: {
      trigger: 'item',
      formatter: ({ name, value, color, seriesName, seriesIndex, dataIndex }) => tip(name || seriesName, [
        ...(name && series.length > 1 ? [{ color: color, name: seriesName, value: '' }] : []),
        { name: x.name, value: show(x, value[0]) }, { name: y.name, value: withInterval(y, value[1], interval(seriesIndex, dataIndex)) }]),
    },
  });
  option.series = [...drawn, ...whiskers, ...lines, ...marks(c, x, y, all[0])];
  const head = ['series', 'name', x.name, y.name, ...(series.some(one => one.intervals) ? ['low', 'high'] : [])];
  return { option, rows: [
    head, ...series.flatMap(({ name, points, intervals = [] }) => points.map(([a, b, label], k) => [name, label, a, b, ...(intervals[k] ?? [])])),
    ...curves.flatMap(({ name, points }) => points.map(([a, b]) => [name, '', a, b])),
  ] };
}

function box({ y, boxes }, c, width) {
  const names = boxes.map(({ name }) => name);
  const lying = width < 380 || names.length > 8 || names.some(name => name.length > 14);
  const place = (i, value) => lying ? [value, i] : [i, value];
  const words = ['minimum', 'first quartile', 'median', 'third quartile', 'maximum'];
  const five = ({ name, n, five, mean }) => tip(name, [...(mean === undefined ? [] : [{ name: 'mean', value: show(y, mean) }]), ...words.map((word, i) => ({ name: word, value: show(y, five[i]) })), { name: 'values', value: number(n) }]);
  const categories = { name: '', categories: names };
  const option = frame(c, {
    x: lying ? y : categories, y: lying ? categories : y, width, names: ['box'],
    tooltip: { trigger: 'item', formatter: item => item.seriesType === 'boxplot' ? five(boxes[item.dataIndex]) : tip(item.name, [{ name: y.name, value: show(y, item.data.at) }]) },
  });
  option.series = [
    { name: 'box', type: 'boxplot', boxWidth: [8, 46], data: boxes.map(({ five }) => five.includes(null) ? [] : five), itemStyle: { color: c.panel, borderColor: c.series[0], borderWidth: 1.6 } },
    {
      name: 'values', type: 'scatter', symbolSize: 5, itemStyle: { color: c.series[1], opacity: 0.75 },
      // Jitter by steps of the golden ratio, which never coincide.
      data: boxes.flatMap(({ name, points }, i) => points.map((at, j) => {
        const aside = ((j * 0.618034) % 1 - 0.5) * 22;
        return { name, at, value: place(i, at), symbolOffset: lying ? [0, aside] : [aside, 0] };
      })),
    },
    {
      name: 'mean', type: 'scatter', symbol: 'diamond', symbolSize: 9, z: 4, itemStyle: { color: c.ink },
      data: boxes.flatMap(({ name, mean }, i) => mean === undefined || mean === null ? [] : [{ name, at: mean, value: place(i, mean) }]),
    },
    ...marks(c, lying ? y : {}, lying ? {} : y, place(0, boxes[0]?.five[2] ?? 0), 'start'),
  ];
  return { option, rows: [['name', 'n', ...words, ...(boxes.some(one => one.mean !== undefined) ? ['mean'] : [])], ...boxes.map(({ name, n, five, mean }) => [name, n, ...five, ...(mean === undefined ? [] : [mean])])] };
}

function bars({ y, names, lying, dots, series }, c, width) {
  const aside = lying || (width < NARROW && names.length * series.length > 6);
  const categories = { name: '', categories: names, label: { interval: names.length > 40 ? 'auto' : 0 } };
  const [low, high] = ends(series.flatMap(one => one.values.flat()).filter(Number.isFinite));
  const values = { ...y, zero: y.zero || !dots };
  // Fractions do not exceed 100 %.
  values.whole = values.zero && low >= 0 && high <= 1 && (y.percent && high > 0.7 || y.end === 1);
  const place = (i, value) => aside ? [value, i] : [i, value];
  const drawn = series.map((one, i) => ({
    name: one.name, type: 'custom', clip: true, itemStyle: { color: c.series[i % 8] },
    data: one.values.map(([value, low, high], k) => [k, value, low ?? value, high ?? value]),
    encode: aside ? { y: 0, x: [1, 2, 3] } : { x: 0, y: [1, 2, 3] },
    renderItem: (params, api) => whisker(params, api, {
      across: aside ? 1 : 0, dots, color: c.series[i % 8], ink: c.ink, place, last: series.length, values: one.values[params.dataIndex],
    }),
  }));
  const option = frame(c, {
    x: aside ? values : categories, y: aside ? categories : values, width, names: series.map(({ name }) => name),
    tooltip: {
      trigger: 'item',
      formatter: ({ dataIndex: k }) => tip(names[k], series.map(({ name, values }, i) => {
        const [value, ...interval] = values[k] ?? [];
        return { color: c.series[i % 8], name, value: withInterval(y, value, interval) };
      })),
    },
  });
  // Zoom along the value axis only, so that the names stay.
  option.dataZoom = option.dataZoom.filter(zoom => (aside ? 'xAxisIndex' : 'yAxisIndex') in zoom);
  option.series = [...drawn, ...marks(c, aside ? y : {}, aside ? {} : y, place(0, series[0]?.values.find(v => v[0] !== null)?.[0] ?? 0), 'start')];
  const rows = series.flatMap(({ name, values }) => values.map((value, k) => [name, names[k], ...value]));
  return { option, rows: [['series', 'name', y.name, 'low', 'high'], ...rows] };
}

/** One bar or dot with its whisker, in the slot of its series among the visible ones. */
function whisker(params, api, { across, dots, color, ink, place, last, values: [value, low, high] }) {
  if (value === null) return undefined;
  const shown = api.currentSeriesIndices().filter(index => index < last);
  const [slot, count] = [shown.indexOf(params.seriesIndex), shown.length];
  const bandwidth = Math.abs(api.size([1, 1])[across]);
  const step = Math.min(bandwidth * 0.76 / count, 54);
  const point = at => {
    const found = api.coord(place(api.value(0), at));
    found[across] += (slot - (count - 1) / 2) * step;
    return found;
  };
  const at = point(value);
  const children = [];
  if (dots) {
    children.push({ type: 'circle', shape: { cx: at[0], cy: at[1], r: 5 }, style: { fill: color } });
  } else {
    const zero = point(0), half = step * 0.43;
    const corner = [Math.min(at[0], zero[0]), Math.min(at[1], zero[1])];
    corner[across] = at[across] - half;
    const size = [Math.abs(at[0] - zero[0]), Math.abs(at[1] - zero[1])];
    size[across] = 2 * half;
    children.push({ type: 'rect', shape: { x: corner[0], y: corner[1], width: size[0], height: size[1], r: 2 }, style: { fill: color, opacity: 0.85 } });
  }
  if (low !== null && high !== null) {
    const cap = Math.min(step * 0.2, 6), ends = [point(low), point(high)];
    const stroke = (from, to) => children.push({
      type: 'line', shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: dots ? color : ink, lineWidth: dots ? 2 : 1.3 },
    });
    stroke(...ends);
    for (const end of ends) {
      const moved = by => { const copy = [...end]; copy[across] += by; return copy; };
      stroke(moved(-cap), moved(cap));
    }
  }
  return { type: 'group', children };
}

function heatmap({ rows, columns, values, named, center }, c, width) {
  const cells = values.flatMap((row, i) => row.map((value, j) => [j, i, value]));
  const finite = cells.map(cell => cell[2]).filter(value => value !== null);
  let [low, high] = finite.length ? ends(finite) : [0, 1];
  if (center !== null) {
    const reach = Math.max(high - center, center - low) || 1;
    [low, high] = [center - reach, center + reach];
  }
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const option = frame(c, {
    x: { name: named[1], categories: columns, label: { rotate: columns.some(name => name.length > 6) && columns.length > 6 ? 40 : 0 } },
    y: { name: named[0], categories: rows }, width, names: [named[2]],
    tooltip: { trigger: 'item', formatter: ({ value: [j, i, value] }) => tip('', [
      { name: named[0] || 'row', value: rows[i] }, { name: named[1] || 'column', value: columns[j] }, { name: named[2], value: number(value) }]) },
  });
  option.visualMap = {
    type: 'continuous', min: low, max: high, calculable: true, orient: 'horizontal', right: 0, top: 0, itemHeight: 150, itemWidth: 12,
    precision: 6, formatter: value => number(value), textStyle: { color: c.soft, fontSize: 12 },
    inRange: { color: center === null ? [c.low, c.mid, c.high] : [c.below, c.center, c.above] },
  };
  option.grid.top = 48;
  const room = Math.min((width - 120) / Math.max(columns.length, 1), 999);
  option.series = [{
    name: named[2], type: 'heatmap', data: cells.filter(cell => cell[2] !== null),
    label: { show: cells.length <= 200 && room > 42, fontSize: 11.5, formatter: ({ value }) => number(+value[2].toPrecision(3)) },
    itemStyle: { borderColor: c.back, borderWidth: 1 }, emphasis: { itemStyle: { borderColor: c.ink } },
  }];
  return { option, rows: [[named[0], ...columns], ...rows.map((name, i) => [name, ...values[i]])] };
}

const KINDS = { line, band: line, density, histogram, scatter, box, bars, heatmap };

for (const place of document.querySelectorAll('.plot')) {
  const numbers = JSON.parse(place.nextElementSibling.textContent);
  const chart = echarts.init(place, null, { devicePixelRatio: Math.max(devicePixelRatio, 2) });
  let drawn;
  const draw = (width = place.clientWidth) => {
    const selected = chart.getOption()?.legend?.[0]?.selected;
    drawn = KINDS[place.dataset.kind](numbers, colors(), width);
    if (selected) drawn.option.legend.selected = selected;
    chart.setOption(drawn.option, { notMerge: true });
  };
  draw();
  place.chart = { get rows() { return drawn.rows; }, echarts: chart };
  report.redraw.push(() => draw());
  // Paper is narrower than most screens, and charts are not resized for printing otherwise.
  const resize = width => {
    chart.resize({ width });
    draw(width);
  };
  addEventListener('beforeprint', () => resize(Math.min(place.clientWidth, PAPER)));
  addEventListener('afterprint', () => resize(undefined));
  new ResizeObserver(() => {
    if (chart.getWidth() === place.clientWidth && chart.getHeight() === place.clientHeight) return;
    resize(undefined);
  }).observe(place);
}

const figure = button => button.closest('figure').querySelector('.plot').chart;
Object.assign(actions, {
  zoom(button) {
    const active = button.ariaPressed !== 'true';
    button.ariaPressed = String(active);
    figure(button).echarts.dispatchAction({ type: 'takeGlobalCursor', key: 'dataZoomSelect', dataZoomSelectActive: active });
  },
  reset(button) {
    const { echarts: chart } = figure(button);
    chart.getOption().dataZoom.forEach((_, dataZoomIndex) => chart.dispatchAction({ type: 'dataZoom', dataZoomIndex, start: 0, end: 100 }));
  },
  'copy-chart': button => report.copy(report.tabbed(figure(button).rows), button),
  'save-chart'(button) {
    const { echarts: chart } = figure(button);
    const caption = button.closest('figcaption').querySelector('h3').textContent;
    report.save(chart.getDataURL({ pixelRatio: 2, backgroundColor: colors().back }), `${report.fileName(caption)}.png`);
  },
});
