#!/usr/bin/env node
// Plain JavaScript for any Node from 20: starts the command with the Node that the package pins, because the
// sources are TypeScript and run unbuilt only there.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('main.ts', import.meta.url))

/** The pinned Node: the binary of the npm package `node`, wherever npm put it. */
function pinnedNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json')
    const { bin } = JSON.parse(readFileSync(manifest, 'utf8'))
    const file = join(dirname(manifest), typeof bin === 'string' ? bin : bin.node)
    return existsSync(file) ? file : undefined
  } catch {
    return undefined
  }
}

const node = pinnedNode()
if (!node) {
  process.stderr.write(
    'agentweaver: the Node that it runs on is not installed. Run "npm ci" in the folder of the project.\n',
  )
  process.exit(1)
}
const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit' })
// The terminal gives Ctrl-C to both; the child decides what it means. Other signals come to us alone.
process.on('SIGINT', () => undefined)
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  } else process.exitCode = code ?? 1
})
