import type { ActorId } from '../access-matrix/stage.ts'

export interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

export const WIDTH = 1360
/** Top of the text below the picture. */
export const FOOTER_Y = 808

/** Background areas: one lane per namespace, between the external endpoints. */
export const ROOMS = [
  { x: 292, y: 76, width: 252, height: 646, namespace: 'controlPlane' },
  { x: 722, y: 76, width: 284, height: 646, namespace: 'sandboxes' },
] as const satisfies readonly (Box & { readonly namespace: string })[]

const left = { x: 24, width: 156, height: 40 }
const control = { x: 312, width: 212, height: 64 }
const sandbox = { x: 738, width: 252, height: 284 }
const below = { y: 744, height: 40 }
const right = { x: 1092, width: 244 }

/** Boxes of the endpoints in the picture. The footer lists connections of all other endpoints. */
export const PLACES: Partial<Record<ActorId, Box>> = {
  internet: { ...left, y: 222 },
  monitoring: { ...left, y: 505 },
  'preview gateway': { ...control, y: 130 },
  'api gateway': { ...control, y: 290 },
  api: { ...control, y: 480, height: 90 },
  agent: { ...sandbox, y: 126 },
  command: { ...sandbox, y: 426 },
  'api server': { ...below, x: 292, width: 120 },
  database: { ...below, x: 424, width: 120 },
  'own node': { ...right, y: 600, height: 58 },
}

/** Lists of external names next to the sandbox class that may reach them. The height grows with the number of names. */
export const NAME_LISTS: Partial<Record<ActorId, Box>> = {
  agent: { ...right, y: 126, height: 40 },
  command: { ...right, y: 456, height: 40 },
}

export const overlap = (a: Box, b: Box): boolean =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
