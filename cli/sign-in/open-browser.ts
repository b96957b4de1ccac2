import { spawn } from 'node:child_process'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'

/** Without a display, the opener would start a browser inside the terminal. */
const hasDisplay = (env: EnvSource): boolean =>
  process.platform === 'darwin' || ['DISPLAY', 'WAYLAND_DISPLAY', 'BROWSER'].some((name) => env[name])

/** Tries to open a page in the browser. The page's address is printed too, so a failure has no effect. */
export function openBrowser(url: URL, env: EnvSource): void {
  if (!hasDisplay(env)) return
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  const child = spawn(opener, [url.href], { stdio: 'ignore', detached: true })
  child.on('error', () => undefined)
  child.unref()
}
