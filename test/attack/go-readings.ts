import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Accepted } from '../egress/differential.ts'

const SOURCE = fileURLToPath(new URL('go-readings/main.go', import.meta.url))

export const hasGo = (): boolean => spawnSync('go', ['version']).status === 0

export interface GoReading {
  readonly reading: string
  readonly refused: boolean
  readonly reason?: string
}

/** Go's own parsers, as a program that reads inputs and writes readings. */
export function startGo(onReading: (accepted: Accepted, go: GoReading) => void) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-go-readings-'))
  const program = join(folder, 'readings')
  execFileSync('go', ['build', '-o', program, SOURCE], { env: { ...process.env, GO111MODULE: 'off' } })
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  const waiting: Accepted[] = []
  lines.on('line', (line) => onReading(waiting.shift() as Accepted, JSON.parse(line) as GoReading))
  return {
    async read(accepted: Accepted) {
      waiting.push(accepted)
      const line = JSON.stringify({ Kind: accepted.kind, Input: accepted.input.toString('base64') })
      if (!child.stdin.write(`${line}\n`)) await once(child.stdin, 'drain')
    },
    /** Returns the number of inputs without a reading. */
    async end() {
      child.stdin.end()
      await once(lines, 'close')
      rmSync(folder, { recursive: true, force: true })
      return waiting.length
    },
  }
}
