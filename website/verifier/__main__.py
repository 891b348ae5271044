"""Build the page in out/page: `python -m website.verifier`. What it fetches is pinned, by npm and pip, with hashes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE, PACKAGE = Path(__file__).parent, ROOT / "src" / "rangebound"
OUT, FETCHED = ROOT / "out" / "page", ROOT / "out" / "page-parts"
PYODIDE = "pyodide@314.0.7"
PYODIDE_SHA512 = (
    "d18bd7c4485f11da4b7dbfd790cd8114078c44eab488c517d9bcf31fda4eb6dc"
    "8c716930abe1db139bb2b860fcd8b37bcb6abe48dbe2ffa579244b0e943d91d4"
)
FLINT = "python-flint==0.9.0"
FLINT_SHA256 = "b31f5c00e0e36040ab58d00b3025156e20869b990d776e4bf90f870b1ee11ad3"
PLATFORM = ("--platform=pyemscripten_2026_0_wasm32", "--python-version=3.14", "--implementation=cp", "--abi=cp314")
ROOMS = ("__init__.py", "__init__.pyi", "errors.py", "values", "laws", "privacy", "sampling", "mechanisms")
"""The rooms that a proof of a number needs: rooms import only lower ones."""
LARGEST = 20_000_000
"""Bytes that the page may have."""


def fetch() -> tuple[Path, Path]:
    """The packages of Pyodide and of python-flint, in out/page-parts; those that are there and whole are kept."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm: not found; install it to fetch Pyodide (Debian and Ubuntu: apt-get install npm)")
    tar = FETCHED / f"{PYODIDE.replace('@', '-')}.tgz"
    if not tar.exists():
        subprocess.run([npm, "pack", PYODIDE, "--silent"], cwd=FETCHED, check=True, stdout=subprocess.DEVNULL)
    if hashlib.sha512(tar.read_bytes()).hexdigest() != PYODIDE_SHA512:
        tar.unlink()
        raise SystemExit(f"{tar.name}: is not {PYODIDE} as it was published; it was removed")
    if not any(FETCHED.glob("python_flint*.whl")):
        pinned = FETCHED / "requirements.txt"
        pinned.write_text(f"{FLINT} --hash=sha256:{FLINT_SHA256}\n", encoding="utf-8")
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes", *PLATFORM, "-d", str(FETCHED)]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "download"]
        subprocess.run([*pip, *options, "-r", str(pinned)], check=True)
    (wheel,) = FETCHED.glob("python_flint*.whl")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != FLINT_SHA256:
        wheel.unlink()
        raise SystemExit(f"{wheel.name}: is not {FLINT} as it was published; it was removed")
    return tar, wheel


def packages(wheel: Path) -> bytes:
    """An archive of python-flint without its tests, of the rooms of rangebound, and of what the page asks."""
    made = io.BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for each in sorted(source.namelist()):
            if not each.startswith("flint/test/") and not each.endswith(".pyi") and ".dist-info/" not in each:
                target.writestr(zipfile.ZipInfo(each), source.read(each), zipfile.ZIP_DEFLATED)
        rooms = [PACKAGE / each for each in ROOMS]
        files = [file for each in rooms for file in ([each] if each.is_file() else sorted(each.rglob("*.py")))]
        for path, name in [*((each, str(each.relative_to(ROOT / "src"))) for each in files), (HERE / "asked.py",) * 2]:
            name = name if isinstance(name, str) else name.name
            target.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def parts(tar: Path, wheel: Path) -> dict[str, bytes]:
    """What the page holds beside its own words, by name."""
    with tarfile.open(tar) as source:
        found = {
            each: source.extractfile(f"package/{each}").read()  # type: ignore[union-attr]
            for each in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
        }
    module, loader = (found.pop(each).decode() for each in ("pyodide.asm.mjs", "pyodide.mjs"))
    script = joined(module, loader, (HERE / "worker.js").read_text(encoding="utf-8"))
    return {**found, "packages.zip": packages(wheel), "worker.js": script.encode()}


def joined(module: str, loader: str, script: str) -> str:
    """One script for the worker: a page that is opened as a file may not import modules there."""
    changes = (
        ("export default _createPyodideModule;", ""),
        ("export{dt as loadPyodide,U as version};", "return dt;"),
        ("//# sourceMappingURL=pyodide.mjs.map", ""),
    )
    for before, after in changes:
        if (module + loader).count(before) != 1:
            raise SystemExit(f"{PYODIDE}: has no {before!r}; it is another version than the one that is known here")
        module, loader = module.replace(before, after), loader.replace(before, after)
    module = module.replace("import.meta.url", '"about:parts/"')
    start = "self.importScripts = undefined;"  # by which Pyodide tells workers that cannot import
    return f"{start}\n{module}\nconst loadPyodide = (() => {{\n{loader}\n}})();\n{script}"


def page(held: dict[str, bytes]) -> str:
    """The page in one file; its content policy names its style and its script by their hashes."""
    style, script = ((HERE / f"verifier.{each}").read_text(encoding="utf-8") for each in ("css", "js"))
    samples = {
        name: ROOT / "examples" / "certificates" / f"{name}.json" for name in ("laplace-truncated", "forged-epsilon")
    }
    blocks = [
        f'<script type="text/plain" id="{name}">{data.read_text("utf-8")}</script>' for name, data in samples.items()
    ]
    for name, data in held.items():
        blocks.append(f'<script type="text/plain" id="{name}">{_text(gzip.compress(data, 9, mtime=0))}</script>')
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data:",  # an empty icon, so that no browser asks a server for one
            "connect-src 'none'",  # nothing is fetched: all is in the file
            f"script-src {_hash(script)} 'wasm-unsafe-eval'",  # Python is WebAssembly
            "worker-src blob:",  # a worker of the page's own text, so that it answers while a proof runs
            f"style-src {_hash(style)}",
            "form-action 'none'",
            "base-uri 'none'",
        )
    )
    filled = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "PARTS": "\n".join(blocks)}
    text = (HERE / "verifier.html").read_text(encoding="utf-8")
    for name, value in filled.items():
        text = text.replace(f"@{name}@", value, 1)
    return text


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _hash(text: str) -> str:
    return f"'sha256-{_text(hashlib.sha256(text.encode()).digest())}'"


def licences(wheel: Path) -> dict[str, bytes]:
    """The licences of what is compiled into the page."""
    with zipfile.ZipFile(wheel) as source:
        names = [each for each in source.namelist() if "/licenses/" in each and not each.endswith("/")]
        return {each.partition("/licenses/")[2].replace("/", "-"): source.read(each) for each in names}


def build(into: Path) -> int:
    """Build the page into a folder, in place of what was there; its bytes."""
    tar, wheel = fetch()
    text = page(parts(tar, wheel)).encode()
    if len(text) > LARGEST:
        raise SystemExit(f"the page has {len(text):,} bytes, and may have {LARGEST:,}")
    shutil.rmtree(into, ignore_errors=True)
    (into / "licences").mkdir(parents=True)
    for name, data in licences(wheel).items():
        (into / "licences" / name).write_bytes(data)
    (into / "index.html").write_bytes(text)
    return len(text)


if __name__ == "__main__":
    print(f"out/page/index.html: {build(OUT) / 1e6:.1f} MB; open it in a browser")
