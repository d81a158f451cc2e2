/** The letter of a name, in a colour that stands for `of`: an address, or what does not change when a name does. */
export function Avatar({ name, of = name, show }: { name: string; of?: string; show?: string }) {
  let hash = 2166136261;
  for (const c of of) hash = Math.imul(hash ^ c.codePointAt(0)!, 16777619);
  const letter = [...name.replace(/^[^\p{L}\p{N}]+/u, "")][0]?.toUpperCase() ?? "?";
  return (
    <span class="avatar" style={{ "--hue": String((hash >>> 0) % 360) }} aria-hidden="true">
      {letter}
      {show && <span class={`dot ${show}`} />}
    </span>
  );
}
