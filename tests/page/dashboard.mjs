// Checks a Grafana dashboard: its form by TypeScript against the types of @grafana/schema, its
// queries against the names that a server has, and that panels do not lie on each other.
//
// usage: node dashboard.mjs FOLDER-OF-PACKAGES DASHBOARD METRICS
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, file, metricsFile] = process.argv.slice(2);
const text = readFileSync(file, "utf8");
const dashboard = JSON.parse(text);

// As literals, so that each word is checked, too. Panels are of a type of their own each.
const ts = createRequire(`${packages}/package.json`)("typescript");
const source = `${packages}/dashboard.ts`;
const { panels, ...rest } = dashboard;
writeFileSync(source, `import type { Dashboard, Panel } from "@grafana/schema";
// Enumerations by the words that they stand for, as JSON has them.
type Plain<T> = T extends string ? \`\${T}\` : T extends (infer E)[] ? Plain<E>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const dashboard: Plain<Dashboard> = ${JSON.stringify(rest)};
export const panels: Plain<Panel>[] = ${JSON.stringify(panels)};
`);
const program = ts.createProgram([source], { strict: true, noEmit: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler });
const faults = ts.getPreEmitDiagnostics(program).map((one) => ts.flattenDiagnosticMessageText(one.messageText, "\n"));
assert.deepEqual(faults, [], "Grafana's types");

const known = new Set([...readFileSync(metricsFile, "utf8").matchAll(/^# TYPE (\S+) (\S+)/gm)]
  .flatMap(([, name, kind]) => (kind === "histogram" ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name])));
known.add("up");
let queries = 0;
const taken = new Map();
const ids = new Set();
for (const panel of panels) {
  assert(!ids.has(panel.id), `panel ${panel.id} twice`);
  ids.add(panel.id);
  const { x, y, w, h } = panel.gridPos;
  assert(x >= 0 && x + w <= 24, `${panel.title}: within 24 columns`);
  for (let column = x; column < x + w; column += 1) for (let row = y; row < y + h; row += 1) {
    const place = `${column} ${row}`;
    assert(!taken.has(place), `${panel.title} lies on ${taken.get(place)}`);
    taken.set(place, panel.title);
  }
  for (const target of panel.targets ?? []) {
    for (const [name] of target.expr.matchAll(/\b(?:pagewell|process)_\w+|\bup\b/g)) {
      assert(known.has(name), `${panel.title}: ${name} is no metric`);
      queries += 1;
    }
  }
}
assert(queries > 10);
console.log(`dashboard: ${panels.length} panels, ${queries} names of metrics`);
