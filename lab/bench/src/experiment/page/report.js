// Draws each picture of the report from the table below it, so that the two cannot differ.
"use strict";
(() => {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const FONT = "12px system-ui, sans-serif";
  const HEIGHT = 240;
  const number = (text) => (text.trim() === "" ? null : Number(text.replace(/[,%]/g, "")));
  // At most three digits, and a unit of thousands.
  const short = (value) => {
    if (value === null) return "";
    const size = Math.abs(value);
    if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
    if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
    return String(Number(value.toPrecision(3)));
  };

  const read = (table) => ({
    roles: [...table.querySelectorAll("th[data-role]")].map((head) => head.dataset.role),
    names: [...table.querySelectorAll("th[data-role]")].map((head) => head.textContent.split(",")[0]),
    places: [...table.querySelectorAll("tbody th")].map((cell) => cell.textContent.trim()),
    rows: [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent.trim())),
  });
  const known = (values) => values.filter((value) => value !== null && value > 0);

  // Axes.

  const powersOfTen = (_plot, _axis, low, high) => {
    const first = Math.round(Math.log10(low));
    return Array.from({ length: Math.round(Math.log10(high)) - first + 1 }, (_, power) => 10 ** (first + power));
  };
  const decades = (values) => {
    const all = known(values);
    if (!all.length) return [0.1, 1];
    const low = Math.floor(Math.log10(Math.min(...all)) + 1e-9);
    const high = Math.ceil(Math.log10(Math.max(...all)) - 1e-9);
    return [10 ** low, 10 ** Math.max(high, low + 1)];
  };
  const range = (values, logarithmic) => (logarithmic ? decades(values) : [0, Math.max(...known(values), 1e-9) * 1.06]);
  const WHOLE_STEPS = Array.from({ length: 8 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
  // Labels of powers of ten stand apart: every second or third where there are many.
  const sparse = (plot, splits, room) => {
    const every = Math.max(1, Math.ceil((splits.length * room) / plot.width));
    return splits.map((split, at) => (at % every ? "" : short(split)));
  };
  const axis = (label, more) => ({
    label, labelFont: FONT, labelSize: 20, labelGap: 2, font: FONT, stroke: color("quiet"), size: 26, gap: 4,
    grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, ...more,
  });
  const scaled = (logarithmic, found) => (logarithmic ? { distr: 3, range: () => found } : { range: () => found });

  // Cases below each other: bars from zero, or marks where each step is ten times the last.

  const LANES = { baseline: 0, enhanced: 0, "report-baseline": 1, "report-enhanced": 1 };
  const cases = (figure, { roles, places, rows }, area) => {
    const logarithmic = figure.dataset.scale === "log";
    const values = rows.map((row) => roles.map((_, column) => number(row[column])));
    const reported = roles.some((role) => role.startsWith("report"));
    const lanes = logarithmic ? (reported ? 2 : 1) : roles.length;
    const lane = logarithmic ? 18 : 14;
    const band = 24 + lanes * lane + 6;
    const found = range(values.flat(), logarithmic);
    // Room for the number behind the longest bar.
    if (!logarithmic) found[1] *= area.clientWidth < 500 ? 1.2 : 1.06;
    const options = {
      width: area.clientWidth || 320,
      height: band * places.length + 54,
      padding: [0, 22, 0, 18],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, ori: 1, dir: -1, range: () => [0, places.length] },
        y: { ori: 0, dir: 1, ...scaled(logarithmic, found) },
      },
      axes: [
        { show: false, side: 3 },
        axis(figure.dataset.value, { scale: "y", side: 2, size: 24, space: 60, ...(logarithmic ? { splits: powersOfTen } : {}),
          values: (plot, splits) => (logarithmic ? sparse(plot, splits, 52) : splits.map(short)) }),
      ],
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      hooks: { draw: [(plot) => drawCases(plot, { roles, places, rows, values, lanes, lane, logarithmic })] },
    };
    return new uPlot(options, [places.map((_, at) => at), places.map(() => null)], area);
  };

  const drawCases = (plot, { roles, places, rows, values, lanes, lane, logarithmic }) => {
    const { ctx, bbox } = plot;
    const ratio = uPlot.pxRatio;
    const at = (value) => plot.valToPos(value, "y", true);
    const right = bbox.left + bbox.width;
    ctx.save();
    ctx.textBaseline = "middle";
    const write = (text, x, y, paint, weight = "") => {
      ctx.font = `${weight} ${12 * ratio}px system-ui, sans-serif`;
      ctx.fillStyle = paint;
      ctx.fillText(text, x, y);
    };
    const fit = (text, room) => {
      ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
      if (ctx.measureText(text).width <= room) return text;
      let cut = text;
      while (cut && ctx.measureText(`${cut}…`).width > room) cut = cut.slice(0, -1);
      return `${cut}…`;
    };
    places.forEach((place, index) => {
      const top = plot.valToPos(index, "x", true);
      if (index) {
        ctx.fillStyle = color("line");
        ctx.fillRect(bbox.left, top, bbox.width, ratio);
      }
      ctx.textAlign = "left";
      write(fit(place, bbox.width), bbox.left, top + 14 * ratio, color("text"), "600");
      for (let number = 0; number < lanes; number += 1) {
        const y = top + (24 + lane * (number + 0.5)) * ratio;
        if (logarithmic) drawMarks(number, y);
        else drawBar(number, y);
      }

      function drawBar(column, y) {
        const value = values[index][column];
        if (value === null) return;
        const [from, to] = [at(0), at(value)];
        ctx.fillStyle = ctx.strokeStyle = color(roles[column].replace("report-", ""));
        ctx.lineWidth = 1.5 * ratio;
        const height = 9 * ratio;
        if (roles[column].startsWith("report")) ctx.strokeRect(from, y - height / 2, Math.max(to - from, ratio), height);
        else ctx.fillRect(from, y - height / 2, Math.max(to - from, 2 * ratio), height);
        label(short(value), from, to + 5 * ratio, y);
      }

      function drawMarks(number, y) {
        const own = roles.map((role, column) => [role, values[index][column]]).filter(([role, value]) => LANES[role] === number && value !== null && value > 0);
        if (!own.length) return;
        const ends = own.map(([, value]) => at(value));
        if (own.length === 2) {
          ctx.strokeStyle = color("quiet");
          ctx.lineWidth = 1.5 * ratio;
          ctx.setLineDash(number ? [3 * ratio, 3 * ratio] : []);
          ctx.beginPath();
          ctx.moveTo(ends[0], y);
          ctx.lineTo(ends[1], y);
          ctx.stroke();
          ctx.setLineDash([]);
        }
        for (const [role, value] of own) {
          const [x, size] = [at(value), 5 * ratio];
          ctx.strokeStyle = ctx.fillStyle = color(role.replace("report-", ""));
          if (number) ctx.fillStyle = color("card");
          ctx.lineWidth = 2 * ratio;
          ctx.beginPath();
          if (role.endsWith("baseline")) ctx.arc(x, y, size, 0, 2 * Math.PI);
          else ctx.rect(x - size, y - size, 2 * size, 2 * size);
          ctx.fill();
          ctx.stroke();
        }
        const factor = own.length === 2 ? rows[index][roles.length + number] : "";
        const text = factor || own.map(([, value]) => short(value)).join(", ");
        label(text, Math.min(...ends), Math.max(...ends) + 12 * ratio, y);
      }

      // Behind the marks, or before them where there is no room, or between them.
      function label(text, left, after, y) {
        ctx.font = `${12 * ratio}px system-ui, sans-serif`;
        const length = ctx.measureText(text).width;
        const before = left - 12 * ratio;
        if (after + length <= right) {
          ctx.textAlign = "left";
          write(text, after, y, color("text"));
        } else if (before - length >= bbox.left) {
          ctx.textAlign = "right";
          write(text, before, y, color("text"));
        } else {
          const middle = (left + after) / 2;
          ctx.fillStyle = color("card");
          ctx.fillRect(middle - length / 2 - 4 * ratio, y - 8 * ratio, length + 8 * ratio, 16 * ratio);
          ctx.textAlign = "center";
          write(text, middle, y, color("text"));
        }
      }
    });
    ctx.restore();
  };

  // Points and lines.

  const readout = (figure, text) => {
    let line = figure.querySelector(".readout");
    if (!line) {
      line = document.createElement("p");
      line.className = "readout";
      line.ariaHidden = "true";
      figure.querySelector(".plots").after(line);
    }
    line.textContent = text;
  };

  const plain = (figure, { roles, names, places, rows }, area, all) => {
    const kind = figure.dataset.kind;
    // Parts of a whole stand by how little is left of it.
    const quantiles = kind === "quantiles";
    const kept = places.map((place, at) => at).filter((at) => !quantiles || places[at].endsWith("%"));
    const nines = (text) => -Math.log10(1 - number(text) / 100);
    const x = kept.map((at) => (quantiles ? nines(places[at]) : number(places[at])));
    const series = roles.map((_, column) => kept.map((at) => number(rows[at][column])));
    const logarithmic = figure.dataset.scale === "log";
    const end = x.at(-1) ?? 1;
    const percent = (power) => (power ? `${(100 - 100 / 10 ** power).toFixed(Math.max(0, power - 2))} %` : "0 %");
    const options = {
      width: area.clientWidth || 320,
      height: HEIGHT,
      padding: [10, 16, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 }, y: false },
      scales: { x: { time: false, range: () => [0, kind === "points" ? end + 1 : end * 1.02] }, y: scaled(logarithmic, all) },
      axes: [
        axis(figure.dataset.place, quantiles
          ? { splits: () => [0, 1, 2, 3, 4].filter((power) => power <= end * 1.02), values: (_, splits) => splits.map((power) => (end > 3 && power === 3 && area.clientWidth < 420 ? "" : percent(power))) }
          : { space: 60, ...(kind === "points" ? { incrs: WHOLE_STEPS } : {}), values: (_, splits) => splits.map(short) }),
        axis(figure.dataset.value, { size: 52, ...(logarithmic ? { splits: powersOfTen } : {}),
          values: (_, splits) => splits.map(short) }),
      ],
      series: [{}].concat(roles.map((role) => ({
        stroke: color(role.replace("report-", "")),
        width: 2,
        dash: role.endsWith("baseline") ? [6, 3] : [],
        spanGaps: true,
        ...(kind === "points"
          ? { paths: () => null, points: { show: true, size: 5, width: 1, fill: color(role) } }
          : { points: { show: kept.length < 30, size: 5, fill: color(role) } }),
      }))),
      hooks: { setCursor: [({ cursor: { idx } }) => readout(figure, idx === null || idx === undefined ? ""
        : `${places[kept[idx]]} ${quantiles ? "of them" : figure.dataset.place}: ${names.map((name, column) =>
          `${name} ${rows[kept[idx]][column] || "–"}`).join(", ")} ${figure.dataset.value}`)] },
    };
    return new uPlot(options, [x, ...series], area);
  };

  const drawn = new Map();
  const draw = (figure) => {
    drawn.get(figure)?.forEach((plot) => plot.destroy());
    const tables = [...figure.querySelectorAll("table")].map(read);
    const areas = [...figure.querySelectorAll(".plot")];
    const values = tables.flatMap(({ roles, rows }) => rows.flatMap((row) => roles.map((_, column) => number(row[column]))));
    const all = range(values, figure.dataset.scale === "log");
    const one = figure.dataset.kind === "cases" ? cases : plain;
    drawn.set(figure, areas.map((area, at) => one(figure, tables[at], area, all)));
  };
  const figures = [...document.querySelectorAll("figure[data-kind]")];
  const drawAll = () => figures.forEach(draw);

  // Paper is white, and as wide as it is.
  const paper = matchMedia("print");
  const paint = (isPaper) => {
    if (isPaper) document.documentElement.dataset.theme = "light";
    else delete document.documentElement.dataset.theme;
    drawAll();
  };
  paper.addEventListener("change", () => paint(paper.matches));
  addEventListener("beforeprint", () => paint(true));
  addEventListener("afterprint", () => paint(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = 0;
  new ResizeObserver(() => {
    if (width === document.body.clientWidth) return;
    width = document.body.clientWidth;
    drawAll();
    document.documentElement.dataset.drawn = figures.length;
  }).observe(document.body);
})();
