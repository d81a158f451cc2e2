// Makes the published forms of throng.js and of the chat page, in `dist` or in another folder: node build.mjs [FOLDER]
import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.argv[2] ?? join(here, "dist");
const tsc = (...args) => execFileSync(join(here, "node_modules/.bin/tsc"), args, { cwd: here, stdio: "inherit" });
const common = { absWorkingDir: here, minify: true, charset: "utf8", target: "es2022", format: "esm", logLevel: "warning" };

tsc("--outDir", out);
tsc("--project", "chat");
await build({ ...common, entryPoints: ["throng.ts"], outfile: join(out, "throng.js") });
await build({ ...common, entryPoints: ["chat/main.tsx"], outfile: join(out, "chat/chat.js"), bundle: true, jsx: "automatic", jsxImportSource: "preact" });
// Nesting is written out for browsers that do not know it.
await build({ ...common, entryPoints: ["chat/style.css"], outfile: join(out, "chat/chat.css"), target: ["chrome105", "firefox115", "safari16"] });
copyFileSync(join(here, "chat/index.html"), join(out, "chat/index.html"));
