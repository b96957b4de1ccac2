import { expect, test } from 'vitest'
import { readConfig } from '../../../runtime/api/config.ts'

const read = (env: Record<string, string>) => readConfig(env, { home: '/home/ada', cwd: '/srv/project' })

test('without settings, the service listens on this machine only and uses the embedded store', () => {
  expect(read({ PATH: '/bin', HOME: '/home/ada' })).toMatchObject({
    host: '127.0.0.1',
    port: 8080,
    stateDir: '/home/ada/.local/state/agentweaver',
    store: { kind: 'sqlite', file: '/home/ada/.local/state/agentweaver/store.db' },
    socket: { path: '/home/ada/.local/state/agentweaver/service.sock' },
    allowedHosts: [],
    workspaceRoots: ['/home/ada'],
    isDirectAllowed: false,
    hasLifeline: false,
    models: {},
  })
})

test('the state folder follows the XDG specification unless a setting names another', () => {
  expect(read({ XDG_STATE_HOME: '/var/xdg' }).stateDir).toBe('/var/xdg/agentweaver')
  expect(read({ XDG_STATE_HOME: 'relative' }).stateDir).toBe('/home/ada/.local/state/agentweaver')
  expect(read({ AGENTWEAVER_STATE_DIR: 'here', XDG_STATE_HOME: '/var/xdg' }).stateDir).toBe(
    '/srv/project/here',
  )
})

test("no workspace may contain this user's keys, even if the service uses another state folder", () => {
  expect(read({ AGENTWEAVER_STATE_DIR: '/state', XDG_CONFIG_HOME: '/conf' }).privateFolders).toEqual(
    expect.arrayContaining(['/state', '/home/ada/.local/state/agentweaver', '/conf/agentweaver']),
  )
})

test.each([
  ['api.example', ['api.example']],
  ['API.example:8080, [::1]:80', ['api.example:8080', '[::1]:80']],
])('accepts the host names %s exactly', (text, names) => {
  expect(read({ AGENTWEAVER_ALLOWED_HOSTS: text }).allowedHosts).toEqual(names)
})

test.each(['', '*', 'https://api.example', '*.example', 'api.example/', 'a,,b', 'a:0', 'a b'])(
  'rejects the host names %j',
  (text) => {
    expect(() => read({ AGENTWEAVER_ALLOWED_HOSTS: text })).toThrow('AGENTWEAVER_ALLOWED_HOSTS')
  },
)

test('lists every problem at once, including unknown keys', () => {
  const env = {
    AGENTWEAVER_PORT: '99999',
    AGENTWEAVER_HOTS: 'localhost',
    AGENTWEAVER_DIRECT: 'maybe',
    AGENTWEAVER_ISOLATION: 'chroot',
    AGENTWEAVER_WORKSPACE_ROOTS: 'relative',
    DATABASE_URL: 'mysql://x',
  }
  for (const key of Object.keys(env)) expect(() => read(env)).toThrow(key)
})

test.for(['false', '0', 'no', 'off'])('reads direct=%s as no', (text) => {
  expect(read({ AGENTWEAVER_DIRECT: text }).isDirectAllowed).toBe(false)
})

test.for(['srv', '/srv/../etc', '/srv/x\n/../../etc', '/srv:x'])('rejects the tool folders %j', (text) => {
  expect(() => read({ AGENTWEAVER_TOOL_ROOTS: text })).toThrow(/AGENTWEAVER_TOOL_ROOTS: must be absolute/)
})

test('ignores settings of the command line', () => {
  expect(() => read({ AGENTWEAVER_URL: 'http://x', AGENTWEAVER_API_KEY: 'k' })).not.toThrow()
})

test('every setting has an effect', () => {
  const changes: Record<string, string> = {
    AGENTWEAVER_HOST: '0.0.0.0',
    AGENTWEAVER_PORT: '1',
    AGENTWEAVER_ALLOWED_HOSTS: 'api.example',
    AGENTWEAVER_STATE_DIR: '/state',
    AGENTWEAVER_WORKSPACE_ROOTS: '/a:/b',
    AGENTWEAVER_ISOLATION: 'linux-bwrap',
    AGENTWEAVER_DIRECT: 'true',
    AGENTWEAVER_TOOL_ROOTS: '/opt/tools',
    AGENTWEAVER_CEILING_FILE: 'ceiling.yml',
    AGENTWEAVER_LOCAL_WARM: '0',
    AGENTWEAVER_KEYS_DIR: '/keys',
    AGENTWEAVER_METRICS_PORT: '9090',
    AGENTWEAVER_MAX_RUNS: '1',
    AGENTWEAVER_MAX_RUNS_PER_OWNER: '1',
    AGENTWEAVER_RATE_LIMIT_PER_MINUTE: '1',
    AGENTWEAVER_APPROVAL_TTL_SECONDS: '1',
    AGENTWEAVER_IDLE_TIMEOUT_SECONDS: '1',
    AGENTWEAVER_STALL_TIMEOUT_SECONDS: '1',
    AGENTWEAVER_RUN_TIMEOUT_SECONDS: '1',
    AGENTWEAVER_LOG_LEVEL: 'error',
    AGENTWEAVER_READY_FORMAT: 'json',
    AGENTWEAVER_LIFELINE: 'true',
    DATABASE_URL: 'postgres://localhost/x',
    OPENAI_BASE_URL: 'http://localhost:1',
    OPENAI_API_KEY: 'k',
    COPILOT_GITHUB_TOKEN: 't',
  }
  const preset = JSON.stringify(read({}))
  const seen = new Set(Object.entries(changes).map(([key, value]) => JSON.stringify(read({ [key]: value }))))
  expect(seen.size).toBe(Object.keys(changes).length)
  expect(seen.has(preset)).toBe(false)
})

const CLUSTER = {
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: 'prod',
  AGENTWEAVER_RUNTIME_CLASS: 'agentweaver-kata',
}

test('sandboxes on a cluster must be requested explicitly, and use no folder of this machine', () => {
  expect(read(CLUSTER)).toMatchObject({
    sandboxes: {
      kind: 'kubernetes',
      deploymentId: 'prod',
      runtimeClass: 'agentweaver-kata',
      slice: { kind: 'base' },
    },
    workspaceRoots: [],
  })
  expect(read({}).sandboxes).toEqual({ kind: 'local', warm: 1 })
})

test.for(['AGENTWEAVER_DEPLOYMENT_ID', 'AGENTWEAVER_RUNTIME_CLASS'])('a cluster needs %s', (key) => {
  const { [key]: _left, ...env } = CLUSTER as Record<string, string>
  expect(() => read(env)).toThrow(key)
})

test('weaker isolation must be requested explicitly', () => {
  expect(read({ ...CLUSTER, AGENTWEAVER_RUNTIME_CLASS: 'none' }).sandboxes).toMatchObject({
    runtimeClass: undefined,
  })
})

test('rejects a setting of the other kind of sandboxes', () => {
  expect(() => read({ AGENTWEAVER_DEPLOYMENT_ID: 'prod' })).toThrow(
    /AGENTWEAVER_DEPLOYMENT_ID: cannot be used/,
  )
  expect(() => read({ ...CLUSTER, AGENTWEAVER_WORKSPACE_ROOTS: '/a' })).toThrow(
    /WORKSPACE_ROOTS: cannot be used/,
  )
})

test('every setting for a cluster has an effect', () => {
  const changes: Record<string, string> = {
    AGENTWEAVER_DEPLOYMENT_ID: 'other',
    AGENTWEAVER_RUNTIME_CLASS: 'gvisor',
    AGENTWEAVER_PREVIEW_SLUG: 'branch-0a1b2c',
    AGENTWEAVER_KUBECONFIG: 'kubeconfig',
  }
  const seen = new Set(
    Object.entries(changes).map(([key, value]) => JSON.stringify(read({ ...CLUSTER, [key]: value }))),
  )
  expect(seen.size).toBe(Object.keys(changes).length)
  expect(seen.has(JSON.stringify(read(CLUSTER)))).toBe(false)
})
