import { readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'

/** One file or symbolic link of an image. Paths have no leading slash. */
export type ImageEntry =
  | {
      readonly kind: 'file'
      readonly path: string
      readonly source: string
      readonly executable?: boolean
    }
  | { readonly kind: 'text'; readonly path: string; readonly text: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }

/** The bundle of each image, and the packages that the bundle loads at run time instead of containing them. */
const CONTENTS = {
  'agent-host': { bundle: 'agent-host', packages: ['koffi', '@koromix', '@github', 'vscode-jsonrpc', 'zod'] },
  toolbox: { bundle: 'runner', packages: ['koffi', '@koromix'] },
  api: { bundle: 'api', packages: [] },
  'egress-proxy': { bundle: 'egress-proxy', packages: [] },
} as const

export type ImageName = keyof typeof CONTENTS
export const IMAGE_NAMES = Object.keys(CONTENTS) as ImageName[]

export interface ContentSources {
  /** The folder that `npm run bundle` wrote. */
  readonly bundles: string
  readonly modules: string
  readonly node: string
}

const HOME = 'opt/agentweaver'
/** Files of a package that no program reads: declarations, source maps, documentation, C sources, other C libraries. */
const UNREAD = /\.(d\.[cm]?ts|map|md|cc|hh|h|inc)$|\/(docs?|koffi\/vendor|musl_x64|musl_arm64)$/

/** The files that this repository puts into an image, on top of the base. The Containerfiles and the local builder use it. */
export function imageContents(name: ImageName, { bundles, modules, node }: ContentSources) {
  const { bundle, packages } = CONTENTS[name]
  return {
    node: [fileEntry(node, 'usr/local/bin/node')],
    packages: packages.flatMap((entry) =>
      folderEntries(join(modules, entry), `${HOME}/node_modules/${entry}`, UNREAD),
    ),
    program: folderEntries(join(bundles, bundle), `${HOME}/${bundle}`),
  }
}

/** The certificate authorities that Node trusts. A base image without the package `ca-certificates` has none. */
export const certificates: ImageEntry = {
  kind: 'text',
  path: 'etc/ssl/certs/ca-certificates.crt',
  text: `${rootCertificates.join('\n')}\n`,
}

/** Every file and link below a folder, except the paths that match `skip`. */
export function folderEntries(source: string, path: string, skip = /(?!)/): ImageEntry[] {
  return readdirSync(source, { withFileTypes: true }).flatMap((entry): ImageEntry[] => {
    const [from, to] = [join(source, entry.name), join(path, entry.name)]
    if (skip.test(from)) return []
    if (entry.isDirectory()) return folderEntries(from, to, skip)
    if (entry.isSymbolicLink()) return [{ kind: 'link', path: to, target: readlinkSync(from) }]
    return entry.isFile() ? [fileEntry(from, to)] : []
  })
}

export function fileEntry(source: string, path: string): ImageEntry {
  const executable = (statSync(source).mode & 0o111) !== 0
  return { kind: 'file', path, source: realpathSync(source), executable }
}
