import { describe, expect, it } from 'vitest'
import { createTouchTracker } from '../../runtime/governance/touched.ts'
import { policy } from './fixture.ts'

const holdsSecretAfter = (tool: string, args: unknown, content?: string) => {
  const tracker = createTouchTracker(policy)
  tracker.observe({ tool, arguments: args }, content)
  return tracker.touched.secret
}

describe('the touch tracker', () => {
  it.each(['.env', 'config/.env.production', 'certs/Server.PEM', '.ssh/id_rsa', 'a/credentials', '.npmrc'])(
    'reports a secret after %s was read',
    (path) => {
      expect(holdsSecretAfter('read_file', { path })).toBe(true)
    },
  )

  it.each(['src/env.ts', '.env.example', 'environment.md', 'id_rsa.pub', 'credentials.ts', 'pem'])(
    'reports no secret after %s',
    (path) => {
      expect(holdsSecretAfter('read_file', { path })).toBe(false)
    },
  )

  it.each(['cat .env', 'source ./.env; make', 'cat <.env', 'X=$(cat .env)', 'openssl rsa -in a/key.pem'])(
    'reports a secret after the command %j',
    (command) => {
      expect(holdsSecretAfter('run_command', { command })).toBe(true)
      expect(holdsSecretAfter('run_command', { command: 'cat README.md' })).toBe(false)
    },
  )

  it('reports a secret after a search returned a line of one', () => {
    expect(holdsSecretAfter('grep_search', { pattern: 'KEY' }, 'src/a.ts:1: KEY\n.env:2: KEY=x')).toBe(true)
    expect(holdsSecretAfter('grep_search', { pattern: 'KEY' }, 'src/a.ts:1: KEY')).toBe(false)
    expect(holdsSecretAfter('grep_search', { pattern: 'KEY', include_pattern: '**/.env' })).toBe(true)
  })

  it('never clears the flag', () => {
    const tracker = createTouchTracker(policy)
    tracker.observe({ tool: 'read_file', arguments: { path: '.env' } })
    tracker.observe({ tool: 'read_file', arguments: { path: 'README.md' } })

    expect(tracker.touched).toEqual({ secret: true })
  })
})
