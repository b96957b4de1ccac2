import { type Box, overlap } from './map-layout.ts'
import { ROW_HEIGHT, STYLES } from './words.ts'

type Point = readonly [x: number, y: number]

/** A cubic Bézier curve: start, two control points, end. */
export type Curve = readonly [Point, Point, Point, Point]

/**
 * Arrows between columns are horizontal, arrows inside a column are vertical. Arrows to the same box end at different
 * heights.
 */
export function curveBetween(a: Box, b: Box): Curve {
  return a.x + a.width < b.x || b.x + b.width < a.x ? sideways(a, b) : upright(a, b)
}

function sideways(a: Box, b: Box): Curve {
  const isRight = a.x < b.x
  const start = isRight ? a.x + a.width : a.x
  const end = isRight ? b.x : b.x + b.width
  // The height of the other box's centre, limited to the edge of this box.
  const [fromY, toY] = [toward(a, middle(b)), toward(b, middle(a))]
  const bend = (start + end) / 2
  return [
    [start, fromY],
    [bend, fromY],
    [bend, toY],
    [end, toY],
  ]
}

function upright(a: Box, b: Box): Curve {
  const x = (Math.max(a.x, b.x) + Math.min(a.x + a.width, b.x + b.width)) / 2
  const [start, end] = a.y < b.y ? [a.y + a.height, b.y] : [a.y, b.y + b.height]
  const third = (end - start) / 3
  return [
    [x, start],
    [x, start + third],
    [x, end - third],
    [x, end],
  ]
}

const middle = ({ y, height }: Box) => y + height / 2
const EDGE = 14
const toward = (box: Box, y: number) => Math.min(Math.max(y, box.y + EDGE), box.y + box.height - EDGE)

function pointAt(curve: Curve, share: number): Point {
  const rest = 1 - share
  const weights = [rest ** 3, 3 * rest ** 2 * share, 3 * rest * share ** 2, share ** 3]
  const sum = (axis: 0 | 1) =>
    curve.reduce((total, point, index) => total + (weights[index] ?? 0) * point[axis], 0)
  return [sum(0), sum(1)]
}

/** Positions along an arrow where its label may be, the centre first. */
const PLACES_ALONG = [0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74, 0.2, 0.8]
const SAMPLES = Array.from({ length: 41 }, (_, index) => index / 40)
const PADDING = 4

export interface Label {
  readonly rows: readonly string[]
  readonly curve: Curve
}

export interface Obstacles {
  readonly boxes: readonly Box[]
  readonly labels: readonly Box[]
  readonly curves: readonly Curve[]
}

/**
 * Chooses the position of an arrow's label: first the fewest overlaps with boxes and other labels, then the fewest
 * crossed arrows.
 */
export function placeLabel({ rows, curve }: Label, { boxes, labels, curves }: Obstacles): Box {
  const longest = Math.max(...rows.map((row) => row.length))
  const width = longest * STYLES.port.character + 2 * PADDING
  const height = rows.length * ROW_HEIGHT
  const candidates = PLACES_ALONG.map((share) => {
    const [x, y] = pointAt(curve, share)
    return { x: x - width / 2, y: y - height / 2, width, height }
  })
  const cost = (box: Box) =>
    1000 * [...boxes, ...labels].filter((other) => overlap(box, other)).length +
    curves.filter((other) => other !== curve && crosses(other, box)).length
  return candidates.reduce((best, box) => (cost(box) < cost(best) ? box : best))
}

function crosses(curve: Curve, box: Box): boolean {
  return SAMPLES.some((share) => {
    const [x, y] = pointAt(curve, share)
    return x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height
  })
}
