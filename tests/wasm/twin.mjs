// The compiler in WebAssembly and natively: the same graph, kernels, keys and numbers.   node twin.mjs MODULE.wasm TWIN
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { load } from "./module.mjs";

const [wasm, twin] = process.argv.slice(2);
if (!fs.existsSync(wasm)) {
  console.log(`skipped: there is no ${wasm}; \`make wasm\` makes it`);
  process.exit(77);
}
const native = (...args) => execFileSync(twin, args.map(String), { encoding: "utf8", maxBuffer: 1 << 28 });
const m = await load(wasm); // fails if the module imports anything

const cases = {
  "an expression is rewritten by the same rules": () => {
    const text = "x = var 0..1023\n(add (mul x 0) (floordiv (add (mul x 8) 3) 8))";
    const ours = m.rewrite(text);
    assert.equal(ours, native("rewrite", text));
    const r = JSON.parse(ours);
    assert.equal(r.after, "x");
    assert.ok(r.fired.length > 0);
  },

  "a mistake is a sentence with its place": () => {
    const r = JSON.parse(m.rewrite("(add x"));
    assert.match(r.error, /\d/);
  },

  "an unknown model is a sentence": () => assert.match(JSON.parse(m.model("nonesuch", 1, 1, 0)).error, /nonesuch/),

  "mlp: graph, passes, kernels, keys and numbers are the native ones": () => {
    const began = Date.now();
    const ours = JSON.parse(m.model("mlp", 4, 3, 7));
    const seconds = (Date.now() - began) / 1000;
    const theirs = JSON.parse(native("model", "mlp", 4, 3, 7));
    assert.equal(ours.parameter_count, 784 * 128 + 128 + 128 * 10 + 10);
    assert.ok(ours.nodes.forward > 10 && ours.nodes.backward > 10 && ours.nodes.update > 10);
    assert.ok(ours.kernels.length > 2 && ours.passes.length > 5);
    assert.ok(ours.loss.every(Number.isFinite) && ours.loss[0] !== ours.loss[1]);
    for (const k of Object.keys(theirs)) assert.deepEqual(ours[k], theirs[k], k);
    console.log(`  ${ours.kernels.length} kernels, loss ${ours.loss.join(" ")}, ${seconds.toFixed(2)} s`);
  },

  "another seed gives other numbers and the same kernels": () => {
    const a = JSON.parse(m.model("mlp", 4, 1, 7)), b = JSON.parse(m.model("mlp", 4, 1, 8));
    assert.notEqual(a.parameters, b.parameters);
    assert.deepEqual(a.kernels.map(k => k.key), b.kernels.map(k => k.key));
  },

  "a call leaves no memory behind": () => {
    m.model("mlp", 4, 1, 7);
    const before = m.memory.buffer.byteLength;
    for (let i = 0; i < 3; i++) m.model("mlp", 4, 1, 7);
    assert.equal(m.memory.buffer.byteLength, before);
  },
};

let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    run();
    console.log(`ok      ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAILED  ${name}\n${e.stack}`);
  }
}
process.exit(failed ? 1 : 0);
