// The published form of throng.js.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const WEB = fileURLToPath(new URL("../../web/", import.meta.url));
const DIST = join(WEB, "dist");
const made = mkdtempSync(join(tmpdir(), "throng-dist-"));

after(() => rmSync(made, { recursive: true, force: true }));

test("the published form is what the source gives, and small", () => {
  const run = (tool, ...args) => execFileSync(join(WEB, "node_modules/.bin", tool), args, { cwd: WEB, stdio: "pipe" });
  run("tsc", "--outDir", made);
  const { build } = JSON.parse(readFileSync(join(WEB, "package.json"))).scripts;
  const flags = build.split("esbuild ")[1].split(" ").filter((flag) => !flag.startsWith("--outfile"));
  run("esbuild", ...flags, `--outfile=${join(made, "throng.js")}`);
  for (const name of ["throng.js", "throng.d.ts"]) {
    assert.equal(readFileSync(join(DIST, name), "utf8"), readFileSync(join(made, name), "utf8"), `web/dist/${name} is old: npm run build`);
  }
  const bytes = gzipSync(readFileSync(join(DIST, "throng.js")), { level: 9 }).length;
  assert.ok(bytes < 6144, `${bytes} bytes by gzip`);
  console.log(`throng.js: ${bytes} bytes by gzip`);
});
