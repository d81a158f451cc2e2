import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { IconButton } from "./icons";

/** A dialog of the browser's own: it keeps the focus, and Escape closes it. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onClose={onClose} onClick={(event) => event.target === ref.current && ref.current?.close()}>
      <div class="dialog">
        <header><h2>{title}</h2><IconButton icon="close" label="Close" onClick={() => ref.current?.close()} /></header>
        {children}
      </div>
    </dialog>
  );
}
