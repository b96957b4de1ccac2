import { execFileSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { folderEntries } from '../../images/contents.ts'
import type { ImageSpec, LayerEntry } from './image-spec.ts'
import { completeLayer, programWithLibraries } from './program-files.ts'

export const PAUSE_IMAGE = 'localhost/pause:1'
export const TOOLBOX_IMAGE = 'localhost/toolbox:1'
export const DNS_IMAGE = 'localhost/coredns:1'

/** The toolbox serves `GET /healthz` on this port, for the probes of pods. */
export const TOOLBOX_PORT = 8080
export const TOOLBOX_USER = 1000

/** The image of the process that holds a pod's namespaces. */
export const pauseImage = (program: string): ImageSpec => programImage(PAUSE_IMAGE, 'pause', program)

export const dnsImage = (program: string): ImageSpec => programImage(DNS_IMAGE, 'coredns', program)

/** An image with one static program. */
function programImage(reference: string, name: string, source: string): ImageSpec {
  return {
    reference,
    layers: [[{ kind: 'file', path: name, source, executable: true }]],
    entrypoint: [`/${name}`],
    user: '65534',
  }
}

/** Paths that Python needs only for its tests, its editor or its headers. */
const PYTHON_EXTRAS =
  /__pycache__|\/(test|tests|idlelib|tkinter|lib2to3|ensurepip|turtledemo|config-[^/]*|dist-packages)$/

/** A shell, git, Node and Python for test pods, copied from the host. */
export function toolboxImage(node: string): ImageSpec {
  return {
    reference: TOOLBOX_IMAGE,
    layers: [
      completeLayer([...basics(), ...shell()]),
      completeLayer([...git(), ...python()]),
      completeLayer(programWithLibraries(node, 'usr/local/bin/node')),
    ],
    entrypoint: ['/bin/busybox'],
    command: ['httpd', '-f', '-p', String(TOOLBOX_PORT), '-h', '/srv/www'],
    environment: { HOME: '/home/agent' },
    user: `${TOOLBOX_USER}:${TOOLBOX_USER}`,
    workingFolder: '/home/agent',
    labels: { 'org.opencontainers.image.title': 'toolbox' },
  }
}

function basics(): LayerEntry[] {
  return [
    {
      kind: 'text',
      path: 'etc/passwd',
      text: 'root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n',
    },
    { kind: 'text', path: 'etc/group', text: 'root:x:0:\nagent:x:1000:\n' },
    { kind: 'text', path: 'etc/nsswitch.conf', text: 'hosts: files dns\n' },
    { kind: 'text', path: 'srv/www/healthz', text: 'ok\n' },
    { kind: 'folder', path: 'home/agent', owner: TOOLBOX_USER },
    { kind: 'folder', path: 'workspace', owner: TOOLBOX_USER },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ]
}

export function shell(): LayerEntry[] {
  const busybox = '/bin/busybox'
  const applets = execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n')
  return [
    { kind: 'file', path: 'bin/busybox', source: busybox, executable: true },
    ...applets
      .filter((name) => name !== 'busybox')
      .map((name): LayerEntry => ({ kind: 'link', path: `bin/${name}`, target: 'busybox' })),
  ]
}

export function git(): LayerEntry[] {
  return [
    ...programWithLibraries('/usr/bin/git', 'usr/bin/git'),
    ...folderEntries('/usr/lib/git-core', 'usr/lib/git-core'),
    // For its libraries.
    ...programWithLibraries('/usr/lib/git-core/git-remote-http', 'usr/lib/git-core/git-remote-http'),
    ...folderEntries('/usr/share/git-core/templates', 'usr/share/git-core/templates'),
  ]
}

export function python(): LayerEntry[] {
  const program = '/usr/bin/python3'
  const script = 'import sys; print("python%d.%d" % sys.version_info[:2])'
  const name = execFileSync(program, ['-c', script], { encoding: 'utf8' }).trim()
  return [
    ...programWithLibraries(program, `usr/bin/${name}`),
    { kind: 'link', path: 'usr/bin/python3', target: name },
    ...folderEntries(`/usr/lib/${name}`, `usr/lib/${name}`, PYTHON_EXTRAS),
  ]
}

/** The npm of this machine. A distribution of Node has it as one folder with all that it needs. */
export function npm(): LayerEntry[] {
  const program = realpathSync(execFileSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).trim())
  const folder = 'usr/local/lib/node_modules/npm'
  return [
    ...folderEntries(dirname(dirname(program)), folder, /\/(docs|man)$/),
    // Its first line names this path.
    { kind: 'link', path: 'usr/bin/env', target: '../../bin/busybox' },
    ...['npm', 'npx'].map(
      (name): LayerEntry => ({
        kind: 'link',
        path: `usr/local/bin/${name}`,
        target: `../lib/node_modules/npm/bin/${name}-cli.js`,
      }),
    ),
  ]
}
