// Python in a worker: proves what it is sent. It has all it needs in memory, and no way to ask for more.
let python, toPython;

const types = { wasm: "application/wasm", zip: "application/zip" };

async function start(parts) {
  self.fetch = async (address) => {
    const name = String(address).split("/").pop();
    if (!(name in parts)) throw new Error(`${name} is not part of this page`);
    return new Response(parts[name], { headers: { "content-type": types[name.split(".").pop()] } });
  };
  const lockFileContents = { info: { abi_version: "2026_0", arch: "wasm32", platform: "emscripten_5_0_3", python: "3.14.2", version: "314.0.7" }, packages: {} };
  const loaded = await loadPyodide({ indexURL: "about:parts/", packageBaseUrl: "about:parts/", createPyodideModule: _createPyodideModule, lockFileContents });
  const place = loaded.runPython("import site; site.getsitepackages()[0]");
  loaded.unpackArchive(parts["packages.zip"], "zip", { extractDir: place });
  toPython = loaded.toPy;
  python = loaded.pyimport("asked");
  python.warm();
}

self.onmessage = async ({ data }) => {
  try {
    if (data.parts) {
      await start(data.parts);
      self.postMessage({ ready: true });
    } else {
      const begun = performance.now();
      const answer = JSON.parse(python.answer(data.certificate, data.published ? toPython(data.published) : undefined));
      self.postMessage({ answer: { ...answer, seconds: (performance.now() - begun) / 1000 } });
    }
  } catch (error) {
    self.postMessage({ fault: String(error?.message ?? error).trim().split("\n").pop() });
  }
};
