import type { ActorId } from '../access-matrix/stage.ts'
import { type Curve, curveBetween, placeLabel } from './arrows.ts'
import { type Box, FOOTER_Y, NAME_LISTS, overlap, PLACES, ROOMS, WIDTH } from './map-layout.ts'
import type { MapEdge, MapModel, MapPool } from './map-model.ts'
import { ROW_HEIGHT, type Words, wordsOf, wrap } from './words.ts'

export type ShapeStyle = 'room' | 'box' | 'ours' | 'sandbox' | 'list' | 'label'

export interface Shape {
  readonly box: Box
  readonly style: ShapeStyle
}

/** All parts of the picture with computed positions. They are drawn in this order: boxes, arrows, labels, text. */
export interface Drawing {
  readonly title: string
  readonly height: number
  readonly shapes: readonly Shape[]
  readonly arrows: readonly Curve[]
  readonly labels: readonly Shape[]
  readonly words: readonly Words[]
}

interface Part {
  readonly shape: Shape
  readonly words: readonly Words[]
}

const MARGIN = 24
const INSET = 10

/** A box is an endpoint, an arrow is a connection that the policies allow, and the arrow's label lists the ports. */
export function drawMap(model: MapModel): Drawing {
  const parts = [...actorParts(model), ...listParts(model)]
  const edges = model.edges.filter(isDrawn)
  const arrows = [...edges.map(curveOf), ...listArrows(model)]
  const labels = labelParts(edges, { boxes: parts.map(({ shape }) => shape.box), arrows })
  const footer = footerWords(model)
  const last = footer.at(-1)?.box
  return {
    title: `Who may talk to whom: ${model.environment}`,
    height: (last ? last.y + last.height : FOOTER_Y) + MARGIN,
    shapes: [...ROOMS.map((box) => ({ box, style: 'room' as const })), ...parts.map(({ shape }) => shape)],
    arrows,
    labels: labels.map(({ shape }) => shape),
    words: [
      ...headWords(model),
      ...parts.flatMap(({ words }) => words),
      ...labels.flatMap(({ words }) => words),
      ...footer,
    ],
  }
}

/** Whether both ends of an edge have a box. The footer lists the other edges as text. */
export const isDrawn = ({ from, to }: MapEdge): boolean =>
  PLACES[from] !== undefined && PLACES[to] !== undefined

function headWords({ environment, namespaces }: MapModel): Words[] {
  const page = { x: 0, y: 0, width: WIDTH, height: FOOTER_Y }
  const line = (text: string, style: 'head' | 'say', y: number) =>
    wordsOf({ rows: [text], styles: () => style, x: MARGIN, y, frame: page })
  return [
    ...line(`${environment}: who may talk to whom, and which pool serves which template`, 'head', 24),
    ...line('Computed from the rendered policies. What has no arrow is closed at every port.', 'say', 50),
    ...ROOMS.flatMap((room) => {
      const name = `namespace ${namespaces[room.namespace]}`
      const rows = wrap(name, { width: room.width - 2 * INSET, style: 'say', at: 'names' })
      return wordsOf({ rows, styles: () => 'say', x: room.x + INSET, y: room.y + 8, frame: room })
    }),
  ]
}

const entriesOf = (places: Partial<Record<ActorId, Box>>) => Object.entries(places) as [ActorId, Box][]

function actorParts(model: MapModel): Part[] {
  return entriesOf(PLACES).flatMap(([id, box]) => {
    const title = id === 'internet' ? 'anybody' : model.titles.get(id)
    if (title === undefined) return []
    const pool = model.pools.find(({ kind }) => kind === id)
    if (pool) return [boxPart({ box, style: 'sandbox', title, rows: poolRows(pool) })]
    const isOurs = ROOMS.some((room) => overlap(room, box))
    const style = isOurs ? 'ours' : 'box'
    return [boxPart({ box, style, title, rows: isOurs ? countOfNames(model, id) : [] })]
  })
}

function countOfNames({ names }: MapModel, id: ActorId): string[] {
  const count = names.get(id)?.length ?? 0
  return count > 0 ? [`and ${count} names (below)`] : []
}

interface BoxText extends Shape {
  readonly title: string
  readonly rows: readonly string[]
}

function boxPart({ box, style, title, rows }: BoxText): Part {
  const width = box.width - 2 * INSET
  const heads = wrap(title, { width, style: 'name', at: 'words' })
  const others = rows.flatMap((row) => wrap(row, { width, style: 'say', at: 'names' }))
  const words = wordsOf({
    rows: [...heads, ...others],
    styles: (index) => (index < heads.length ? 'name' : 'say'),
    x: box.x + INSET,
    y: box.y + INSET,
    frame: box,
  })
  return { shape: { box, style }, words }
}

const poolRows = (pool: MapPool): string[] => [
  `pool ${pool.pool}`,
  `→ template ${pool.template}`,
  `→ class ${pool.runtimeClass}`,
  ...pool.containers,
  `account ${pool.account}`,
  'tokens for',
  ...pool.tokens.map((audience) => `· ${audience}`),
]

function listParts(model: MapModel): Part[] {
  return entriesOf(NAME_LISTS).map(([id, place]) => {
    const names = model.names.get(id)
    const rows = names
      ? ['by name, TCP 443 unless said', ...names.map((name) => name.replace(/:443$/, ''))]
      : [`class ${id}: no name outside`]
    const width = place.width - 2 * INSET
    const wrapped = rows.flatMap((row) => wrap(row, { width, style: 'port', at: 'names' }))
    const box = { ...place, height: wrapped.length * ROW_HEIGHT + 2 * INSET }
    const words = wordsOf({
      rows: wrapped,
      styles: () => 'port',
      x: box.x + INSET,
      y: box.y + INSET,
      frame: box,
    })
    return { shape: { box, style: names ? 'list' : 'box' }, words }
  })
}

/** A straight arrow from each sandbox class to its list of names. */
function listArrows(model: MapModel): Curve[] {
  return entriesOf(NAME_LISTS).flatMap(([id, list]): Curve[] => {
    const from = PLACES[id]
    if (!from || !model.names.has(id)) return []
    const [start, y] = [from.x + from.width, list.y + 20]
    const third = (list.x - start) / 3
    return [
      [
        [start, y],
        [start + third, y],
        [list.x - third, y],
        [list.x, y],
      ],
    ]
  })
}

function curveOf({ from, to }: MapEdge): Curve {
  const [a, b] = [PLACES[from], PLACES[to]]
  if (!a || !b) throw new Error(`${from} or ${to} has no place`)
  return curveBetween(a, b)
}

interface Ground {
  readonly boxes: readonly Box[]
  readonly arrows: readonly Curve[]
}

const LABEL_WIDTH = 112

function labelParts(edges: readonly MapEdge[], { boxes, arrows }: Ground): Part[] {
  const labels: Part[] = []
  for (const [index, { ports }] of edges.entries()) {
    const curve = arrows[index]
    if (!curve) continue
    const rows = wrap(ports, { width: LABEL_WIDTH, style: 'port', at: 'words' })
    const taken = labels.map(({ shape }) => shape.box)
    const box = placeLabel({ rows, curve }, { boxes, labels: taken, curves: arrows })
    labels.push({
      shape: { box, style: 'label' },
      words: wordsOf({ rows, styles: () => 'port', x: box.x + 4, y: box.y, frame: box }),
    })
  }
  return labels
}

function footerWords({ edges, titles, names, closed }: MapModel): Words[] {
  const title = (id: ActorId) => titles.get(id) ?? id
  const others = edges.filter((edge) => !isDrawn(edge))
  const told = [
    ...Map.groupBy(others, ({ to, ports }) => `${title(to)} at ${ports.replaceAll(';', ' and')}`),
  ].map(([target, group]) => `${target} from ${group.map(({ from }) => title(from)).join(', ')}`)
  const apiNames = names.get('api') ?? []
  const paragraphs = [
    `No sandbox reaches: ${closed.join('; ')}.`,
    ...(apiNames.length > 0 ? [`Names of the API: ${apiNames.join(', ')}.`] : []),
    ...(told.length > 0 ? [`Open and not drawn: ${told.join('; ')}.`] : []),
  ]
  const width = WIDTH - 2 * MARGIN
  const rows = paragraphs.flatMap((paragraph) => wrap(paragraph, { width, style: 'say', at: 'words' }))
  const frame = { x: MARGIN, y: FOOTER_Y, width, height: rows.length * ROW_HEIGHT }
  return wordsOf({ rows, styles: () => 'say', x: MARGIN, y: FOOTER_Y, frame })
}
