import { render } from "preact";
import { load } from "./config";
import { Page } from "./ui/app";

const root = document.getElementById("root")!;
load().then(
  (config) => render(<Page config={config} />, root),
  () => (root.textContent = "This page cannot reach its server. Check your connection, then load it again."),
);
