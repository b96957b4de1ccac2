import { expect, it } from 'vitest'
import { logUnsuspended } from '../../runtime/api/runs/drive/suspend.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import type { Log } from '../../runtime/kit/log.ts'

it.each([
  ['info', 'a run that goes on', new SandboxError('conflict', 'the run is running')],
  ['warn', 'a checkpoint that failed', new SandboxError('payload_too_large', 'the session is too large')],
])('logs at level %s that %s was not suspended', (level, _what, error) => {
  const lines: [string, string][] = []
  const at = (name: string) => (message: string, fields?: object) =>
    void lines.push([name, `${message} ${JSON.stringify(fields)}`])

  logUnsuspended({ info: at('info'), warn: at('warn') } as unknown as Log, error)

  expect(lines.map(([name]) => name)).toEqual([level])
  expect(lines[0]?.[1].includes('stack')).toBe(false)
})
