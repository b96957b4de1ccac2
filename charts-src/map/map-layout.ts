import type { ActorId } from '../reachability/stage.ts'

export interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

export const WIDTH = 1240
export const HEIGHT = 860

/** Rooms that the boxes stand in. */
export const ROOMS: readonly (Box & { readonly title: string })[] = [
  { x: 260, y: 90, width: 260, height: 520, title: 'control plane' },
  { x: 660, y: 90, width: 292, height: 520, title: 'sandboxes' },
]

const left = { x: 24, width: 160, height: 56 }
const control = { x: 284, width: 212, height: 64 }
const sandbox = { x: 680, width: 252, height: 208 }
const below = { y: 650, height: 40 }

/** Where whom the picture shows. Whoever is not here is told in words. */
export const PLACES: Partial<Record<ActorId, Box>> = {
  internet: { ...left, y: 214 },
  monitoring: { ...left, y: 480 },
  'preview gateway': { ...control, y: 130 },
  'api gateway': { ...control, y: 290 },
  api: { ...control, y: 450, height: 90 },
  agent: { ...sandbox, y: 130 },
  command: { ...sandbox, y: 380 },
  'api server': { ...below, x: 260, width: 120 },
  database: { ...below, x: 400, width: 120 },
  'own node': { x: 1006, y: 530, width: 226, height: 58 },
}

/** Lists of names outside, beside whom may reach them. */
export const NAME_LISTS: Partial<Record<ActorId, Box>> = {
  agent: { x: 1006, y: 130, width: 226, height: 268 },
  command: { x: 1006, y: 420, width: 226, height: 40 },
}
