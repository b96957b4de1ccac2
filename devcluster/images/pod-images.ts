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
import { basename, join, resolve } from 'node:path'
import { certificates, type ImageName, imageContents } from '../../images/contents.ts'
import { bundleApi, bundleEgressProxy, bundleServices } from '../../tools/bundle.ts'
import { imageConfig } from './containerfile.ts'
import { dropUnused } from './drop-unused.ts'
import type { ImageSpec, LayerEntry } from './image-spec.ts'
import { completeLayer, librariesOf, programWithLibraries } from './program-files.ts'
import { git, npm, python, shell } from './toolbox.ts'

export const AGENT_HOST_IMAGE = 'localhost/agent-host:1'
export const SANDBOX_TOOLBOX_IMAGE = 'localhost/sandbox-toolbox:1'
export const API_IMAGE = 'localhost/api:1'
export const EGRESS_PROXY_IMAGE = 'localhost/egress-proxy:1'

const MODULES = resolve(import.meta.dirname, '../../node_modules')

/** The commands that a run can use, as layers of the toolbox. */
export type ToolboxTools = () => { readonly shell: LayerEntry[]; readonly languages: LayerEntry[] }

/** Needs busybox, git, Python and npm on this machine. */
const machineTools: ToolboxTools = () => ({ shell: shell(), languages: [...git(), ...python(), ...npm()] })

/** The two images of a sandbox pod. Instead of a base image they have this machine's programs and libraries. */
export async function podImages(
  cacheRoot: string,
  node: string,
  tools: ToolboxTools = machineTools,
): Promise<ImageSpec[]> {
  const bundles = await bundleOnce(cacheRoot, bundleServices)
  const toolbox = localImage('toolbox', SANDBOX_TOOLBOX_IMAGE, { bundles, node })
  const [base = [], ...layers] = toolbox.layers
  return [
    localImage('agent-host', AGENT_HOST_IMAGE, { bundles, node }),
    { ...toolbox, layers: [completeLayer([...base, ...toolboxBase(tools)]), ...layers] },
  ]
}

/** The API's image. Only `npm run cluster -- up --service` and `npm run images` need it. */
export async function apiImage(cacheRoot: string, node: string): Promise<ImageSpec> {
  const bundles = await bundleOnce(cacheRoot, bundleApi)
  return localImage('api', API_IMAGE, { bundles, node })
}

/** The image of the egress proxy, for the same commands. */
export async function egressProxyImage(cacheRoot: string, node: string): Promise<ImageSpec> {
  const bundles = await bundleOnce(cacheRoot, bundleEgressProxy)
  return localImage('egress-proxy', EGRESS_PROXY_IMAGE, { bundles, node })
}

function localImage(
  name: ImageName,
  reference: string,
  { bundles, node }: { bundles: string; node: string },
): ImageSpec {
  const config = imageConfig(name)
  const { packages, program } = imageContents(name, { bundles, modules: MODULES, node })
  return {
    ...config,
    reference,
    layers: [
      completeLayer([...baseFiles(config), ...packages, ...nativeLibraries(packages)]),
      completeLayer(programWithLibraries(node, 'usr/local/bin/node')),
      completeLayer(program),
    ],
    labels: { 'org.opencontainers.image.title': basename(reference, ':1') },
  }
}

/** The files of a Debian base that the programs need: users, name resolution, certificates, writable folders. */
function baseFiles({ user, environment }: Pick<ImageSpec, 'user' | 'environment'>): LayerEntry[] {
  const [uid, gid] = user.split(':').map(Number)
  const home = environment?.['HOME'] ?? '/'
  return [
    {
      kind: 'text',
      path: 'etc/passwd',
      text: `root:x:0:0::/root:/bin/sh\n${basename(home)}:x:${uid}:${gid}::${home}:/bin/sh\n`,
    },
    { kind: 'text', path: 'etc/group', text: `root:x:0:\nsandbox:x:${gid}:\n` },
    { kind: 'text', path: 'etc/nsswitch.conf', text: 'hosts: files dns\n' },
    certificates,
    { kind: 'folder', path: home.slice(1), owner: uid ?? 0 },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
  ]
}

/** The commands and the workspace folder of the toolbox, which the Containerfile takes from Debian's packages. */
function toolboxBase(tools: ToolboxTools): LayerEntry[] {
  const { shell: applets, languages } = tools()
  const owner = Number(imageConfig('toolbox').user.split(':')[0])
  return [
    ...applets.filter(({ path }) => !/^bin\/(sh|bash|unshare|nsenter)$/.test(path)),
    ...programWithLibraries('/bin/dash', 'bin/dash'),
    ...programWithLibraries('/bin/bash', 'bin/bash'),
    { kind: 'link', path: 'bin/sh', target: 'dash' },
    ...['unshare', 'setpriv', 'nsenter', 'prlimit'].flatMap((name) =>
      programWithLibraries(`/usr/bin/${name}`, `usr/bin/${name}`),
    ),
    { kind: 'folder', path: 'workspace', owner },
    // Root owns the mounted volume, and git refuses a folder of another user unless it is listed here.
    { kind: 'text', path: 'etc/gitconfig', text: '[safe]\n\tdirectory = /workspace\n' },
    ...languages,
  ]
}

/** The shared libraries that the native parts of packages load. A base image would have them. */
function nativeLibraries(entries: readonly LayerEntry[]): LayerEntry[] {
  const native = entries.flatMap((entry) =>
    entry.kind === 'file' && entry.path.endsWith('.node') ? entry.source : [],
  )
  return [...new Set(native.flatMap(librariesOf))].map(
    (source): LayerEntry => ({ kind: 'file', path: source.slice(1), source, executable: true }),
  )
}

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
