import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { rootCertificates } from 'node:tls'
import { POD_HOMES, POD_USERS } from '../../contracts/pod.ts'
import { bundleApi, bundleServices } from '../../tools/bundle.ts'
import { dropUnused } from './drop-unused.ts'
import type { ImageSpec, LayerEntry } from './image-spec.ts'
import { completeLayer, folderTree, librariesOf, programWithLibraries } from './program-files.ts'
import { git, python, shell } from './toolbox.ts'

/** The images of a sandbox pod, as `images/*.Containerfile` make them from a base, here from this machine's files. */
export const AGENT_HOST_IMAGE = 'localhost/agent-host:1'
export const SANDBOX_TOOLBOX_IMAGE = 'localhost/sandbox-toolbox:1'
export const API_IMAGE = 'localhost/api:1'

const MODULES = resolve(import.meta.dirname, '../../node_modules')
const HOME = 'opt/agentweaver'
const NODE = 'usr/local/bin/node'
/** Of a package: what no program reads. */
const PACKAGE_EXTRAS = /\.(d\.[cm]?ts|map|md|cc|hh|h|inc)$|\/(docs?|koffi\/vendor|musl_x64|musl_arm64)$/

export async function podImages(
  cacheRoot: string,
  node: string,
  tools: ToolboxTools = machineTools,
): Promise<ImageSpec[]> {
  const bundles = await bundleOnce(cacheRoot, bundleServices)
  return [agentHostImage(bundles, node), sandboxToolboxImage(bundles, node, tools)]
}

/** The programs that commands find in the toolbox, by image layer. */
export type ToolboxTools = () => { readonly shell: LayerEntry[]; readonly languages: LayerEntry[] }

/** The machine's own programs, as far as busybox, git and Python are installed. */
const machineTools: ToolboxTools = () => ({ shell: shell(), languages: [...git(), ...python()] })

/** The image of the API. Only a cluster that the API is deployed to needs it. */
export async function apiImage(cacheRoot: string, node: string): Promise<ImageSpec> {
  const bundles = await bundleOnce(cacheRoot, bundleApi)
  const { agentHost: user, group } = POD_USERS
  return {
    reference: API_IMAGE,
    layers: [
      nodeLayer(node),
      completeLayer(users(user, 'api', API_HOME)),
      completeLayer(folderTree(join(bundles, 'api'), `${HOME}/api`)),
    ],
    entrypoint: [`/${NODE}`, `/${HOME}/api/server.mjs`],
    environment: { HOME: API_HOME },
    user: `${user}:${group}`,
    labels: { 'org.opencontainers.image.title': 'api' },
  }
}

const API_HOME = '/home/api'

/** Bundles into a folder named after the hash of its files, so that an image of the same code is built once. */
async function bundleOnce(cacheRoot: string, bundle: (folder: string) => Promise<unknown>): Promise<string> {
  const folder = join(cacheRoot, 'bundles')
  mkdirSync(folder, { recursive: true })
  dropUnused(folder)
  const scratch = mkdtempSync(join(folder, 'new-'))
  await bundle(scratch)
  const hash = createHash('sha256').update(process.version)
  for (const name of readdirSync(scratch, { recursive: true, encoding: 'utf8' }).sort()) {
    if (/\.([cm]?js|wasm)$/.test(name)) hash.update(name).update(readFileSync(join(scratch, name)))
  }
  const kept = join(folder, hash.digest('hex').slice(0, 24))
  if (existsSync(kept)) rmSync(scratch, { recursive: true })
  else renameSync(scratch, kept)
  utimesSync(kept, new Date(), new Date())
  return kept
}

function agentHostImage(bundles: string, node: string): ImageSpec {
  const { agentHost, group } = POD_USERS
  return {
    reference: AGENT_HOST_IMAGE,
    layers: [
      nodeLayer(node),
      completeLayer([
        ...users(agentHost, 'agent-host', POD_HOMES.agentHost),
        ...modules(['koffi', '@koromix', '@github', 'vscode-jsonrpc', 'zod']),
      ]),
      completeLayer(folderTree(join(bundles, 'agent-host'), `${HOME}/agent-host`)),
    ],
    entrypoint: [`/${NODE}`, '--max-semi-space-size=2', `/${HOME}/agent-host/server.cjs`],
    environment: { HOME: POD_HOMES.agentHost },
    user: `${agentHost}:${group}`,
    labels: { 'org.opencontainers.image.title': 'agent-host' },
  }
}

function sandboxToolboxImage(bundles: string, node: string, tools: ToolboxTools): ImageSpec {
  const { toolbox, group } = POD_USERS
  const { shell: applets, languages } = tools()
  return {
    reference: SANDBOX_TOOLBOX_IMAGE,
    layers: [
      nodeLayer(node),
      completeLayer([
        ...users(toolbox, 'sandbox', POD_HOMES.toolbox),
        ...applets.filter(({ path }) => !/^bin\/(sh|bash|unshare|nsenter)$/.test(path)),
        ...programWithLibraries('/bin/dash', 'bin/dash'),
        ...programWithLibraries('/bin/bash', 'bin/bash'),
        { kind: 'link', path: 'bin/sh', target: 'dash' },
        ...['unshare', 'setpriv', 'nsenter', 'prlimit'].flatMap((name) =>
          programWithLibraries(`/usr/bin/${name}`, `usr/bin/${name}`),
        ),
        { kind: 'folder', path: 'workspace', owner: toolbox },
        // The volume's own folder belongs to root, and git trusts no folder of another user.
        { kind: 'text', path: 'etc/gitconfig', text: '[safe]\n\tdirectory = /workspace\n' },
        ...modules(['koffi', '@koromix']),
      ]),
      completeLayer(languages),
      completeLayer(folderTree(join(bundles, 'runner'), `${HOME}/runner`)),
    ],
    entrypoint: [`/${NODE}`, `/${HOME}/runner/server.cjs`],
    environment: { HOME: POD_HOMES.toolbox },
    user: `${toolbox}:${group}`,
    labels: { 'org.opencontainers.image.title': 'sandbox-toolbox' },
  }
}

const nodeLayer = (node: string): LayerEntry[] => completeLayer(programWithLibraries(node, NODE))

function users(id: number, name: string, home: string): LayerEntry[] {
  return [
    {
      kind: 'text',
      path: 'etc/passwd',
      text: `root:x:0:0::/root:/bin/sh\n${name}:x:${id}:1000::${home}:/bin/sh\n`,
    },
    { kind: 'text', path: 'etc/group', text: 'root:x:0:\nsandbox:x:1000:\n' },
    { kind: 'text', path: 'etc/nsswitch.conf', text: 'hosts: files dns\n' },
    // The agent runtime and git use the system's certificates, and refuse to start a request without any.
    { kind: 'text', path: 'etc/ssl/certs/ca-certificates.crt', text: `${rootCertificates.join('\n')}\n` },
    { kind: 'folder', path: home.slice(1), owner: id },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ]
}

/** Packages that a bundle leaves outside, with the libraries that their native parts load. */
function modules(names: readonly string[]): LayerEntry[] {
  const entries = names.flatMap((name) =>
    folderTree(join(MODULES, name), `${HOME}/node_modules/${name}`, PACKAGE_EXTRAS),
  )
  const native = entries.flatMap((entry) =>
    entry.kind === 'file' && entry.path.endsWith('.node') ? entry.source : [],
  )
  const libraries = [...new Set(native.flatMap(librariesOf))]
  return [
    ...entries,
    ...libraries.map(
      (source): LayerEntry => ({ kind: 'file', path: source.slice(1), source, executable: true }),
    ),
  ]
}
