import { type Document, isMap, isScalar, isSeq, type Node, Pair, type ToStringOptions, YAMLMap } from 'yaml'
import type { SandboxSettingsPatch } from '../../contracts/policy.ts'
import { parseSettingsDocument } from './settings.ts'
import type { YamlFault } from './yaml.ts'

export interface SettingsEdit {
  readonly settings: SandboxSettingsPatch
  /** Removes the keys that `settings` does not name. */
  readonly replaces: boolean
}

/**
 * Writes settings into the text of a settings file. Comments, order and layout stay; the comment above a removed key goes with
 * it, except above the first key. Returns the fault of a text that is no settings file.
 */
export function editSettings(
  text: string,
  { settings, replaces }: SettingsEdit,
): { readonly ok: true; readonly text: string } | YamlFault {
  const unix = text.replaceAll('\r\n', '\n').replace(/^\ufeff/, '')
  // Parsing is the slow part: a file of blank lines takes 2 ms for each KiB.
  const present = parseSettingsDocument(unix)
  if (!present.ok) return present
  const { document } = present
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined)
  const isAnyRemoved = replaces && Object.keys(present.patch).some((key) => !(key in settings))
  if (entries.length === 0 && !isAnyRemoved) return { ok: true, text }
  const layout = layoutOf(document, unix)
  const map = isMap(document.contents) ? document.contents : emptyMap(document)
  document.contents = map as typeof document.contents
  if (replaces) keepOnly(document, map, settings)
  for (const [key, value] of entries) setIn(document, map, [key, value])
  return { ok: true, text: withEnds(text, document.toString(layout)) }
}

/** Returns an empty map that replaces a document without keys, such as `null` or `---`, and keeps its comments. */
function emptyMap({ contents }: Document.Parsed): YAMLMap {
  const map = new YAMLMap()
  map.commentBefore = [contents?.commentBefore, contents?.comment].filter(Boolean).join('\n') || null
  return map
}

/** The comment above the first key is often about the whole file, so it stays. */
function keepOnly(document: Document.Parsed, map: YAMLMap, settings: SandboxSettingsPatch): void {
  const [first] = map.items
  remove(map, (key) => !(key in settings))
  const [now] = map.items
  if (now === first || !isScalar(first?.key) || !first.key.commentBefore) return
  document.commentBefore ??= first.key.commentBefore
  if (isScalar(now?.key)) now.key.spaceBefore = false
}

const remove = (map: YAMLMap, isUnwanted: (key: string) => boolean): void => {
  map.items = map.items.filter(({ key }) => !isUnwanted(keyOf(key)))
}

const keyOf = (key: unknown): string => String(isScalar(key) ? key.value : key)

function setIn(document: Document, map: YAMLMap, [key, value]: readonly [string, unknown]): void {
  const pair = map.items.find((item) => keyOf(item.key) === key)
  if (pair) pair.value = merged(document, pair.value as Node | null, value)
  else map.items.push(new Pair(document.createNode(key), document.createNode(value)))
}

/** Changes a node as little as possible, because comments belong to nodes. */
function merged(document: Document, node: Node | null, value: unknown): Node {
  const isList = Array.isArray(value)
  const isObject = typeof value === 'object' && value !== null && !isList
  if (isScalar(node) && !isList && !isObject) {
    node.value = value
    return node
  }
  if (isMap(node) && isObject) {
    remove(node, (key) => !(key in value))
    for (const entry of Object.entries(value)) setIn(document, node, entry)
    return node
  }
  if (isSeq(node) && isList) {
    const left = [...(node.items as Node[])]
    node.items = value.map((item) => {
      const at = left.findIndex((one) => isScalar(one) && one.value === item)
      return at < 0 ? document.createNode(item) : left.splice(at, 1)[0]
    })
    return node
  }
  return document.createNode(value)
}

/** In the order in which they are tried. The first is the layout of `agentweaver init`. */
const LAYOUTS: readonly ToStringOptions[] = [2, 4].flatMap((indent) =>
  [true, false].flatMap((indentSeq) =>
    [true, false].map((flowCollectionPadding) => {
      return { indent, indentSeq, flowCollectionPadding, lineWidth: 0 }
    }),
  ),
)

/** The layout that leaves the rest of the file as it is, if there is one. */
function layoutOf(document: Document.Parsed, text: string): ToStringOptions {
  const isUnchanged = (layout: ToStringOptions) => document.toString(layout) === text
  return LAYOUTS.find(isUnchanged) ?? (LAYOUTS[0] as ToStringOptions)
}

/** With the byte order mark and the line ends of the text before. */
function withEnds(before: string, after: string): string {
  const mark = before.startsWith('\ufeff') ? '\ufeff' : ''
  return mark + (before.includes('\r\n') ? after.replaceAll('\n', '\r\n') : after)
}
