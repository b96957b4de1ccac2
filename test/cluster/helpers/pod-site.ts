import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { inject } from 'vitest'
import { CONTAINERS, WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { type Site, SYSCALL_FIXTURE } from '../../conformance/executor-cases/site.ts'
import type { TestNamespace } from './namespace.ts'
import { execInPod, kubectl } from './pods.ts'

const FIXTURE = '.syscall.mjs'
const at = (path: string) => `${WORKSPACE_MOUNT}/${path}`

/** The toolbox of a sandbox pod, as a human operator reaches it. */
export function podSite(space: TestNamespace, pod: () => string): Site {
  const script = async (text: string, ...args: string[]) => {
    const argv = ['/bin/sh', '-c', text, 'sh', ...args]
    const { code, output } = await execInPod(space, { name: pod(), container: CONTAINERS.toolbox }, argv)
    if (code !== 0) throw new Error(`in ${pod()}: ${output}`)
    return output
  }
  return {
    async open() {
      await script('printf %s "$2" >"$1"', at(FIXTURE), readFileSync(SYSCALL_FIXTURE, 'utf8'))
    },
    syscallProgram: `NODE_PATH=/opt/agentweaver/node_modules node ${at(FIXTURE)}`,
    close: async () => undefined,
    outside: '/tmp',
    port: AGENT_HOST_PORT,
    folder: async (path) => {
      await script('mkdir -p "$1"', at(path))
    },
    link: async (target, path) => {
      await script('ln -s "$1" "$2"', target, at(path))
    },
    async countProcesses(text) {
      const lines = await script(
        `for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <"$f" 2>/dev/null; echo; done`,
      )
      return lines.split('\n').filter((line) => line.startsWith(text.replaceAll('\0', ' '))).length
    },
    async swap(path, outside) {
      const loop = `echo go; while :; do rm -rf "$1"; mkdir "$1"; rm -rf "$1"; ln -s "$2" "$1"; done`
      const child = startInPod(space, pod(), ['/bin/sh', '-c', loop, 'sh', at(path), outside])
      await once(child.stdout ?? child, 'data')
      return async () => {
        await script(
          `for p in /proc/[0-9]*; do grep -qs 'echo go; while' "$p/cmdline" && [ "\${p#/proc/}" != $$ ] && kill -9 "\${p#/proc/}"; done; true`,
        )
        child.kill()
        await script('rm -rf "$1"', at(path))
      }
    },
  }
}

function startInPod(space: TestNamespace, pod: string, argv: readonly string[]): ChildProcess {
  const target = ['-n', space.name, 'exec', pod, '-c', CONTAINERS.toolbox, '--']
  const options = ['--kubeconfig', inject('cluster').kubeconfig]
  return spawn(kubectl(), [...options, ...target, ...argv], { stdio: ['ignore', 'pipe', 'ignore'] })
}
