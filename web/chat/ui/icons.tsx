/** Pictures of buttons; each button has its name in words beside it. */

const paths = {
  add: "M12 5v14M5 12h14",
  attach: "M21 11.5l-8.5 8.5a5.5 5.5 0 0 1-8-8L13 3.5a3.7 3.7 0 0 1 5.2 5.2l-8.3 8.4a1.8 1.8 0 0 1-2.6-2.6L15 7",
  back: "M15 5l-7 7 7 7",
  bell: "M6 9a6 6 0 1 1 12 0c0 6 2 7 2 8H4c0-1 2-2 2-8M10 20a2 2 0 0 0 4 0",
  close: "M6 6l12 12M18 6L6 18",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "M4 20h4L19 9l-4-4L4 16v4",
  invite: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8M2 21c0-4 3-7 7-7s7 3 7 7M19 8v6M16 11h6",
  leave: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  people: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8M2 21c0-4 3-7 7-7s7 3 7 7M16 3.5a4 4 0 0 1 0 7M18 14.5c2.500 1 4 3.300 4 6.500",
  remove: "M5 7h14M10 4h4M7 7l1 13h8l1-13",
  reply: "M10 5l-6 6 6 6M4 11h9c5 0 7 3 7 8",
  send: "M4 12l16-8-6 16-3-6.500-7-1.500z",
  smile: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M8.500 14a4.200 4.200 0 0 0 7 0M9 9.500h.01M15 9.500h.01",
} as const;

export const Icon = ({ name }: { name: keyof typeof paths }) => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d={paths[name]} /></svg>
);

/** A button with a picture, whose name is read aloud and shown when a pointer rests on it. */
export const IconButton = ({ icon, label, ...more }: { icon: keyof typeof paths; label: string; class?: string; disabled?: boolean; onClick: () => void; "aria-expanded"?: boolean; "aria-pressed"?: boolean }) => (
  <button type="button" {...more} class={`icon-button ${more.class ?? ""}`} aria-label={label} title={label}><Icon name={icon} /></button>
);
