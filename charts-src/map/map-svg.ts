import type { ActorId } from '../reachability/stage.ts'
import { type Box, HEIGHT, NAME_LISTS, PLACES, ROOMS, WIDTH } from './map-layout.ts'
import type { MapEdge, MapModel, MapPool } from './map-model.ts'

const FONT = "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
/** Half an em of the small font: what a character takes on average. */
const CHARACTER = 6.1
/** Bold words of a box are wider, so less of them fits. */
const BOLD = 0.8

/** The picture: boxes are who there is, an arrow is a connection that some rule permits, its words are the ports. */
export function mapSvg(model: MapModel): string {
  const drawn = model.edges.filter(isDrawn)
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="${FONT}" font-size="13" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(`Who may talk to whom: ${model.environment}`)}</title>`,
    STYLE,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(
      [24, 40],
      `${model.environment}: who may talk to whom, and which pool serves which template`,
      'head',
    ),
    text([24, 62], 'Computed from the rendered policies. What has no arrow is closed at every port.', 'say'),
    ...ROOMS.map((room) => `${rect(room, 'room')}${text([room.x + 12, room.y + 22], room.title, 'say')}`),
    ...drawn.map(arrow),
    ...Object.entries(PLACES).map(([id, box]) => actorBox(model, id as ActorId, box)),
    ...Object.entries(NAME_LISTS).map(([id, box]) => nameList(model, id as ActorId, box)),
    ...drawn.map(label),
    ...footer(model),
    '</svg>',
  ].join('\n')}\n`
}

/** Whether an edge has both ends in the picture; the others are told in words below it. */
export const isDrawn = ({ from, to }: MapEdge): boolean =>
  PLACES[from] !== undefined && PLACES[to] !== undefined

const STYLE = `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8Z" fill="#475569"/></marker>
<style>
.room { fill: #f8fafc; stroke: #cbd5e1; stroke-width: 1.5 }
.box { fill: #ffffff; stroke: #94a3b8 }
.ours { fill: #eff6ff; stroke: #93c5fd; stroke-width: 1.5 }
.sandbox { fill: #fff7ed; stroke: #fdba74; stroke-width: 1.5; stroke-dasharray: 7 4 }
.list { fill: #f0fdf4; stroke: #86efac }
.head { font-size: 18px; font-weight: 600; fill: #0f172a }
.name { font-weight: 600; fill: #0f172a }
.say { fill: #475569; font-size: 12px }
.port { fill: #0f172a; font-size: 11.5px }
.line { fill: none; stroke: #475569; stroke-width: 1.4; marker-end: url(#tip) }
</style></defs>`

function actorBox(model: MapModel, id: ActorId, box: Box): string {
  const pool = model.pools.find(({ kind }) => kind === id)
  if (pool) return poolBox(model, pool, box)
  const title = id === 'internet' ? 'anybody' : model.titles.get(id)
  if (title === undefined) return ''
  const isOurs = ROOMS.some(
    (room) =>
      box.x >= room.x && box.y >= room.y && box.y < room.y + room.height && box.x < room.x + room.width,
  )
  const names = model.names.get(id) ?? []
  const more = isOurs && names.length > 0 ? [`and ${names.length} names (below)`] : []
  return [
    rect(box, isOurs ? 'ours' : 'box'),
    ...lines(box, [...wrap(title, box.width * BOLD), ...more], (index) => (index === 0 ? 'name' : 'say')),
  ].join('')
}

function poolBox(model: MapModel, pool: MapPool, box: Box): string {
  const words = [
    model.titles.get(pool.kind) ?? pool.kind,
    `pool ${pool.pool}`,
    `→ template ${pool.template}`,
    `→ runtime class ${pool.runtimeClass}`,
    ...pool.containers,
    `account ${pool.account}`,
    'tokens for',
    ...pool.tokens.map((audience) => `  ${audience}`),
  ]
  return rect(box, 'sandbox') + lines(box, words, (index) => (index === 0 ? 'name' : 'say'))
}

function nameList(model: MapModel, id: ActorId, box: Box): string {
  const names = model.names.get(id)
  const from = PLACES[id]
  if (!from) return ''
  if (!names) return rect(box, 'box') + lines(box, ['no name outside'], () => 'say')
  const y = from.y + 60
  const line = `<path class="line" d="M${from.x + from.width} ${y} H${box.x}"/>`
  const rows = ['by name, TCP 443 unless said', ...names.map((name) => name.replace(/:443$/, ''))]
  const words = rows.flatMap((name) => wrap(name, box.width))
  const height = 18 * words.length + 16
  return line + rect({ ...box, height }, 'list') + lines(box, words, () => 'port')
}

type Point = readonly [x: number, y: number]

interface Route {
  readonly path: string
  readonly at: Point
}

function arrow(edge: MapEdge): string {
  return `<path class="line" d="${route(edge).path}"/>`
}

function label(edge: MapEdge): string {
  const { at } = route(edge)
  const words = edge.ports.replaceAll('; ', ' · ')
  const width = words.length * CHARACTER + 8
  const [x, y] = [at[0] - width / 2, at[1]]
  return `<rect x="${round(x)}" y="${round(y - 9)}" width="${round(width)}" height="17" rx="3" fill="#ffffff" fill-opacity="0.92"/>${text([round(x + 4), round(y + 4)], words, 'port')}`
}

/** Sideways between columns, up or down inside one; arrows to one box come in at different heights. */
function route({ from, to }: MapEdge): Route {
  const [a, b] = [PLACES[from], PLACES[to]]
  if (!a || !b) throw new Error(`${from} or ${to} has no place`)
  return a.x + a.width < b.x || b.x + b.width < a.x ? sideways(a, b) : upright(a, b)
}

function sideways(a: Box, b: Box): Route {
  const isRight = a.x < b.x
  const start = isRight ? a.x + a.width : a.x
  const end = isRight ? b.x : b.x + b.width
  // Towards the other's height, but never beyond a box.
  const [fromY, toY] = [toward(a, middle(b)), toward(b, middle(a))]
  const bend = (start + end) / 2
  return {
    path: `M${start} ${fromY} C${bend} ${fromY} ${bend} ${toY} ${end} ${toY}`,
    at: [bend, (fromY + toY) / 2],
  }
}

function upright(a: Box, b: Box): Route {
  const x = (Math.max(a.x, b.x) + Math.min(a.x + a.width, b.x + b.width)) / 2
  const [start, end] = a.y < b.y ? [a.y + a.height, b.y] : [a.y, b.y + b.height]
  return { path: `M${x} ${start} V${end}`, at: [x, (start + end) / 2] }
}

const middle = ({ y, height }: Box) => y + height / 2
const EDGE = 14
const toward = (box: Box, y: number) => Math.min(Math.max(y, box.y + EDGE), box.y + box.height - EDGE)

function footer({ edges, titles, names, closed }: MapModel): string[] {
  const title = (id: ActorId) => titles.get(id) ?? id
  const others = edges.filter((edge) => !isDrawn(edge))
  const told = [...Map.groupBy(others, ({ to, ports }) => `${title(to)} at ${ports}`)].map(
    ([target, group]) => `${target} from ${group.map(({ from }) => title(from)).join(', ')}`,
  )
  const apiNames = names.get('api') ?? []
  const paragraphs = [
    `No sandbox reaches: ${closed.join('; ')}.`,
    ...(apiNames.length > 0 ? [`Names of the API: ${apiNames.join(', ')}.`] : []),
    `Not drawn: ${told.join('; ')}.`,
  ]
  const rows = paragraphs.flatMap((paragraph) => wrap(paragraph, WIDTH - 48))
  return rows.map((row, index) => text([24, HEIGHT - 16 * (rows.length - index) + 2], row, 'say'))
}

function lines(box: Box, words: readonly string[], style: (index: number) => string): string {
  return words.map((word, index) => text([box.x + 10, box.y + 22 + 18 * index], word, style(index))).join('')
}

/** Breaks at spaces, and at dots of a name that is too long by itself. */
function wrap(words: string, width: number): string[] {
  const room = Math.floor((width - 20) / CHARACTER)
  const rows: string[] = []
  for (const piece of words.split(/(?<=[ .])/)) {
    const last = rows.at(-1)
    if (last !== undefined && (last + piece).trimEnd().length <= room) rows[rows.length - 1] = last + piece
    else rows.push(piece)
  }
  return rows.map((row) => row.trimEnd())
}

const rect = ({ x, y, width, height }: Box, style: string) =>
  `<rect class="${style}" x="${x}" y="${y}" width="${width}" height="${height}" rx="8"/>`
const text = ([x, y]: Point, words: string, style: string) =>
  `<text class="${style}" x="${x}" y="${y}">${escaped(words)}</text>`
const round = (value: number) => Math.round(value * 10) / 10
const escaped = (words: string) =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
