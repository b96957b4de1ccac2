import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HostHealth } from '../../contracts/host-health.ts'
import { CONTAINERS, WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { IDENTITY_TOKEN, RUNNER_SOCKET } from '../../contracts/pod.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { CONNECTION_LIMITS } from '../../runtime/agent-host/connection-limiter.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import type { Executor } from '../../runtime/executors/executor.ts'
import { COMMAND_LIMITS } from '../../runtime/executors/process/command-supervisor.ts'
import { TOKEN } from '../agent-host/host-rig.ts'
import { execute, type Options } from '../conformance/executor-cases/subject.ts'
import { hasFeature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPodExecutor } from './helpers/pod-executor.ts'
import { execInPod } from './helpers/pods.ts'
import { type SandboxPod, startSandboxPod } from './helpers/sandbox-pod.ts'

const never = new AbortController().signal
const LISTENING = '0A'
const ABSTRACT = `"\\u0000${RUNNER_SOCKET}"`

/** The listening ports in a table of `/proc/net`. */
const listenersIn = (table: string): number[] =>
  table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === LISTENING)
    .map(([, local = '']) => Number.parseInt(local.split(':')[1] ?? '', 16))

const tries = (attempt: string) => `import sys
try:
    ${attempt}
    print("open")
except OSError as error:
    print(error.strerror)
`

describe.each(['runc', 'gvisor'])('the isolation of a sandbox pod under %s', (runtime) => {
  const isThere = hasFeature(runtime === 'runc' ? 'real node' : 'gvisor')

  describe.skipIf(!isThere)('hold', () => {
    const space = useNamespace(`walls-${runtime}`)
    let pod: SandboxPod
    let executor: Executor

    const run = (command: string, options: Options = {}) => execute(executor, command, options)
    const python = (script: string, options: Options = {}) =>
      run('python3 -', { ...options, stdin: Buffer.from(script) })
    const inHost = async (script: string) =>
      execInPod(space, { name: pod.name, container: CONTAINERS.agentHost }, ['node', '-p', script])

    beforeAll(async () => {
      pod = await startSandboxPod(space, 'walls', runtime === 'runc' ? {} : { runtimeClassName: runtime })
      const settings = SandboxSettings.parse({ network_enabled: true })
      await pod.configure({ governance: { version: '1', settings } })
      const { isolation } = HostHealth.parse(await (await fetch(`${pod.baseUrl}/healthz`)).json())
      if (isolation) executor = createPodExecutor(pod.client, isolation)
    })
    afterAll(async () => {
      await executor?.close()
      await pod?.client.close()
    })

    it('listens on exactly one port', async () => {
      const tables = 'cat /proc/net/tcp /proc/net/tcp6'
      const before = await run(tables, { network: true })
      const server = `require('net').createServer().listen(7777, () => console.log(require('child_process').execSync('${tables}').toString()) || process.exit())`
      const control = await run(`node -e "${server}"`, { network: true })

      expect(listenersIn(before.stdout)).toEqual([AGENT_HOST_PORT])
      expect(listenersIn(control.stdout).sort()).toEqual([7777, AGENT_HOST_PORT])
    })

    it('has permanently closed the socket that the runners used', async () => {
      const connect = `require('net').connect(${ABSTRACT}).on('connect', () => console.log('connected')).on('error', (e) => console.log(e.code))`
      const listen = `require('net').createServer(() => console.log('came')).listen(${ABSTRACT}, () => { ${connect}; setTimeout(() => process.exit(), 1500) })`
      const node = (script: string) => run('node -', { network: true, stdin: Buffer.from(script) })

      const late = await node(connect)
      const posing = await node(listen)

      expect(late.stdout).toBe('ECONNREFUSED\n')
      // A command that listens under the socket's name receives only its own connection.
      expect(posing.stdout.split('\n').sort()).toEqual(['', 'came', 'connected'])
    })

    it('runs each container as a separate user, without capabilities, on a read-only root', async () => {
      const own = 'grep -E "^(Uid|Gid|CapEff|NoNewPrivs)" /proc/self/status; grep " / " /proc/self/mounts'
      const toolbox = await run(`${own}; touch /opt/x || touch /etc/x || touch /usr/x || echo nowhere`)
      const host = await inHost(
        `['status', 'mounts'].map((file) => require('fs').readFileSync('/proc/1/' + file, 'utf8')).join('')`,
      )

      expect(toolbox.stdout).toMatch(/Uid:\t1000\t1000.*\nGid:\t1000\t1000.*\nCapEff:\t0+\nNoNewPrivs:\t1/)
      expect(toolbox.stdout).toMatch(/nowhere\n$/)
      expect(host.output).toMatch(/Uid:\t1001\t1001/)
      expect(host.output).toMatch(/CapEff:\t0+\n/)
      for (const text of [toolbox.stdout, host.output]) expect(text).toMatch(/^\S+ \/ \S+ ro[, ]/m)
    })

    it('hides the workspace from AgentHost and AgentHost’s files from commands', async () => {
      const workspace = await inHost(`require('fs').existsSync('${WORKSPACE_MOUNT}')`)
      const visible = await run(`ls -d /proc/[0-9]*; cat /proc/[0-9]*/cmdline | tr '\\0' ' '`)
      const secrets = await run(
        `ls ${IDENTITY_TOKEN.mountPath} /etc/agentweaver /home/agent-host /var/run/secrets; env | grep -i agent_host`,
        { network: true },
      )

      expect(workspace.output).toBe('false')
      expect(visible.stdout).toContain('runner/server.cjs')
      expect(visible.stdout).not.toContain('agent-host/server.cjs')
      expect(secrets.stdout).toBe('')
    })

    it('lets no command read or write the memory of a runner', async () => {
      const pids =
        (await run(`grep -l 'runner/server[.]cjs' /proc/[0-9]*/cmdline`)).stdout.match(/\d+/g) ?? []
      const open = (pid: string, file: string, mode: string) =>
        tries(`open("/proc/${pid}/${file}", "${mode}").read(1)`)
      const attempts: string[] = []
      for (const pid of new Set(pids)) {
        attempts.push((await python(open(pid, 'mem', 'r+b'))).stdout.trim())
        attempts.push((await python(open(pid, 'environ', 'rb'))).stdout.trim())
        attempts.push(
          (
            await run(`readlink /proc/${pid}/fd/* /proc/${pid}/exe; head -c1 /proc/${pid}/maps | wc -c`)
          ).stdout.trim(),
        )
      }
      // A command may read its own child after that has executed another program.
      const becomes = 'until [ "$(readlink /proc/$!/exe)" = /bin/busybox ]; do :; done'
      const control = await run(
        `sleep 9 & ${becomes}; head -c4 /proc/$!/environ | wc -c; readlink /proc/$!/exe`,
      )

      expect(new Set(pids).size).toBe(2)
      expect(control.stdout).toMatch(/^4\n\/bin\/busybox/)
      for (const attempt of attempts)
        expect(['Permission denied', 'No such file or directory', 'Input/output error', '', '0']).toContain(
          attempt,
        )
    })

    it('gives a command without network no access to the network of a runner', async () => {
      const attempts = [
        'nsenter --target 1 --net true',
        `python3 -c 'import os; os.setns(os.open("/proc/1/ns/net", os.O_RDONLY))'`,
        `python3 -c 'import socket; socket.create_connection(("127.0.0.1", ${AGENT_HOST_PORT}), 2)'`,
        `python3 -c 'import socket; socket.create_connection(("::1", ${AGENT_HOST_PORT}), 2)'`,
        `exec 3<>/dev/tcp/127.0.0.1/${AGENT_HOST_PORT}`,
        `node -e 'require("dgram").createSocket("udp4").send("x", 53, "${new URL(pod.baseUrl).hostname}", (e) => process.exit(e ? 1 : 0)).on("error", () => process.exit(1))'`,
      ]
      const outcomes = await Promise.all(attempts.map((command) => run(command)))
      const control = await run(attempts[2] ?? '', { network: true })

      expect(control.exitCode).toBe(0)
      expect(outcomes.map(({ exitCode }) => exitCode === 0)).toEqual(attempts.map(() => false))
    })

    it('serves its caller while a command floods it with connections', async () => {
      const script = `const { connect } = require('net')
        let open = 0, came = 0
        for (let i = 0; i < 2000; i++) {
          const socket = connect(${AGENT_HOST_PORT}, i % 2 ? '127.0.0.1' : '${new URL(pod.baseUrl).hostname}', () => {
            open++; came++
            socket.write('GET /healthz HTTP/1.1\\r\\nhost: x\\r\\nx-slow: ')
          })
          socket.on('error', () => {}).on('close', () => { open-- })
        }
        const begun = Date.now()
        setInterval(() => {
          const isOver = came > 500 && open <= ${CONNECTION_LIMITS.local}
          if (Date.now() - begun < (isOver ? 4_000 : 40_000)) return
          process.stdout.write(JSON.stringify({ open, came }), () => process.exit())
        }, 100)`
      const flooding = run('node -', {
        network: true,
        stdin: Buffer.from(script),
        timeoutMs: 50_000,
      })

      const served: string[] = []
      for (let round = 0; round < 20; round++) served.push((await run(`echo ${round}`)).stdout.trim())
      const fresh = createAgentHostClient(
        { baseUrl: pod.baseUrl, guard: { verify: async () => undefined } },
        TOKEN,
      )
      const listed = await fresh.file({ op: 'list', path: '.', limit: 10 }, new Uint8Array(), never)
      await fresh.close()
      const flood = await flooding
      expect(flood).toMatchObject({ exitCode: 0, stderr: '' })
      const { open, came } = JSON.parse(flood.stdout) as { open: number; came: number }

      expect(served).toEqual(Array.from({ length: 20 }, (_, round) => String(round)))
      expect(listed.result.ok).toBe(true)
      expect(came).toBeGreaterThan(500)
      expect(open).toBeLessThanOrEqual(CONNECTION_LIMITS.local)
    })

    it('limits a command, which inherits only the limits of the runner', async () => {
      const { openFiles, fileBytes, dataBytes } = COMMAND_LIMITS
      const asked = 'ulimit -Hc; ulimit -Hn; ulimit -Hf; ulimit -Hd; cat /proc/self/oom_score_adj'

      for (const network of [true, false]) {
        const open = await run('ls /proc/$$/fd; true', { network })
        const [core, files, blocks, data, score] = (await run(asked, { network })).stdout.split('\n')

        expect(open.stdout).toBe('0\n1\n2\n')
        expect([core, files, blocks, data]).toEqual(
          // bash reports file size and data segment in units of 1,024 bytes.
          [0, openFiles, fileBytes / 1024, dataBytes / 1024].map(String),
        )
        expect(Number(score)).toBeGreaterThanOrEqual(500)
      }
    })

    it('opens no debugger when a command signals any thread of a runner', async () => {
      const ask = `for t in /proc/[0-9]*/task/*; do grep -qs 'runner/server[.]cjs' $t/cmdline && kill -USR1 \${t##*/} 2>/dev/null && echo asked; done; sleep 0.5`
      const listening = `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -ci ':240D .* 0A '`
      const until = `for i in $(seq 100); do [ "$(${listening})" -gt 0 ] && break; sleep 0.1; done; ${listening}`
      const control = `node -e 'process.kill(process.pid, "SIGUSR1"); setInterval(() => {}, 1000)' 2>/dev/null & ${until}`

      for (const network of [true, false]) {
        const asked = await run(`${ask}; ${listening}`, { network })

        expect(asked.stdout).toContain('asked')
        expect(asked.stdout.trim().split('\n').at(-1)).toBe('0')
      }
      expect(Number((await run(control, { network: true })).stdout)).toBeGreaterThan(0)
    })

    it('lets no command set the limits of any thread of a runner', async () => {
      const script = `
import os, resource
threads = [int(t) for p in os.listdir('/proc') if p.isdigit()
           and b'runner/server.cjs' in open(f'/proc/{p}/cmdline', 'rb').read() for t in os.listdir(f'/proc/{p}/task')]
def tries(t):
    try:
        resource.prlimit(t, resource.RLIMIT_NOFILE, (5, 5))
        return 'set'
    except PermissionError:
        return 'refused'
child = os.fork()
if child == 0:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    print(resource.prlimit(0, resource.RLIMIT_NOFILE)[0], flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(len(threads) > 10, {tries(t) for t in threads})`

      expect((await python(script)).stdout).toBe("64\nTrue {'refused'}\n")
    })

    it('kills a background writer without the marker of its command', async () => {
      const writer = `env -i /bin/sh -c 'setsid /bin/sh -c "while :; do echo x; sleep 0.3; done" &' &`

      const outcome = await run(`${writer} sleep 0.5; exit 4`, { timeoutMs: 10_000 })

      expect(outcome).toMatchObject({ reason: 'exit', exitCode: 4 })
      expect(outcome.stdout).toContain('x')
    })

    it('finds a hidden process of a command, and ends it with the command', async () => {
      const mark = `7${Date.now() % 100_000}.5`
      const hidden = `setsid env -i /bin/busybox setsid /bin/busybox sleep ${mark}`
      const count = `for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done | grep -c 'sleep[ ]${mark}'`

      const during = await run(`(${hidden} >/dev/null 2>&1 </dev/null &) ; sleep 0.3; ${count}`)
      const after = await run(count)

      expect(Number(during.stdout)).toBeGreaterThan(0)
      expect(after.stdout).toBe('0\n')
    })

    it('leaves no zombie behind', async () => {
      await run('for i in 1 2 3 4 5; do (setsid sleep 0.01 >/dev/null 2>&1 &); done; sleep 0.2')

      const zombies = await run(`grep -l '^State:.Z' /proc/[0-9]*/status | wc -l`)

      expect(zombies.stdout.trim()).toBe('0')
    })
  })
})
