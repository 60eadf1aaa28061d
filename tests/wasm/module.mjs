// The module as a caller sees it: text in, JSON out.
import fs from "node:fs";

export async function load(path) {
  const module = await WebAssembly.compile(fs.readFileSync(path));
  const imports = WebAssembly.Module.imports(module).map(i => `${i.module}.${i.name}`);
  if (imports.length) throw new Error(`the module asks for ${imports.join(", ")}; it must have no imports`);
  const { exports: e } = await WebAssembly.instantiate(module, {});
  e._initialize();
  const put = text => {
    const bytes = new TextEncoder().encode(text + "\0");
    const p = e.anneal_alloc(bytes.length);
    new Uint8Array(e.memory.buffer, p, bytes.length).set(bytes);
    return p;
  };
  const take = p => {
    const all = new Uint8Array(e.memory.buffer);
    const text = new TextDecoder().decode(all.subarray(p, all.indexOf(0, p)));
    e.anneal_free(p);
    return text;
  };
  const call = (name, text, ...rest) => {
    const p = put(text);
    try { return take(e[name](p, ...rest)); } finally { e.anneal_free(p); }
  };
  return {
    memory: e.memory,
    model: (name, batch, steps, seed) => call("anneal_model", name, batch, steps, seed),
    rewrite: text => call("anneal_rewrite", text),
  };
}
