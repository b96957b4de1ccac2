#!/usr/bin/env node
// Plain JavaScript for any Node from 20, so that an older one gets a sentence and not a syntax error. An installed package
// has its programs built, and runs in the Node that started it. A clone runs its TypeScript sources, which takes the Node
// that it pins.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('main.ts', import.meta.url))

if (existsSync(main)) runSources()
else await runBuilt()

/** Node's own loader would fail on syntax that an older version does not know. */
async function runBuilt() {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const [major = 0, minor = 0] = engines.node.match(/\d+/g).map(Number)
  const [ownMajor, ownMinor] = process.versions.node.split('.').map(Number)
  if (ownMajor > major || (ownMajor === major && ownMinor >= minor)) await import('../dist/npm/cli.js')
  else
    end(`Node ${process.versions.node} is too old: install Node ${major}.${minor} or newer, and run it again.`)
}

function end(message) {
  process.stderr.write(`agentweaver: ${message}\n`)
  process.exit(1)
}

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

function runSources() {
  const node = pinnedNode()
  if (!node) end('the Node that it runs on is not installed. Run "npm ci" in the folder of the project.')
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
}
