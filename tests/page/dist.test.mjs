// The published forms of throng.js and of the chat page.
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

test("the published forms are what the sources give, and small", () => {
  execFileSync("node", [join(WEB, "build.mjs"), made], { stdio: "pipe" });
  const bytes = {};
  for (const name of ["throng.js", "throng.d.ts", "chat/chat.js", "chat/chat.css", "chat/index.html"]) {
    const published = readFileSync(join(DIST, name));
    assert.ok(published.equals(readFileSync(join(made, name))), `web/dist/${name} is old: npm run build`);
    bytes[name] = gzipSync(published, { level: 9 }).length;
  }
  console.log("bytes by gzip:", bytes);
  assert.ok(bytes["throng.js"] < 6144);
  assert.ok(bytes["chat/chat.js"] + bytes["chat/chat.css"] + bytes["chat/index.html"] < 50_000);
});
