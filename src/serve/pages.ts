/** Two pages outside the window: they hold no text but ours and no script. */
const page = (title: string, body: string, head = '') => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>${title}</title>${head}
<style>
  body { margin: 0; height: 100vh; display: grid; place-items: center; font: 14px/1.6 system-ui, sans-serif;
         background: light-dark(#eef2f3, #101416); color: light-dark(#1d262b, #e8edef) }
  main { max-width: 26rem; padding: 2rem } h1 { font-size: 1.15rem; margin: 0 0 .5rem }
  p { margin: .5rem 0; color: light-dark(#55626a, #a3afb5) } code { font-family: ui-monospace, monospace }
</style></head><body><main>${body}</main></body></html>`

export const lockedPage = page(
  'Orangery is locked',
  `<h1>This window is locked</h1>
  <p>Open the address that <code>orangery serve</code> printed. It works once; for another browser, start
  <code>orangery serve</code> again.</p>`,
)

// A page that moves on by itself, not a redirect: after a redirect from another site the strict cookie stays behind.
export const welcomePage = page(
  'Orangery',
  '<h1>Welcome</h1><p>Opening the window…</p>',
  '<meta http-equiv="refresh" content="0;url=/">',
)
