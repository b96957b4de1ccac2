import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import type { Environment } from '../environment/schema.ts'
import { renderEnvironment } from '../tree/render.ts'
import { mapModel } from './map-model.ts'
import { mapSvg } from './map-svg.ts'

/** Renders the picture of an environment from the same objects that `npm run synth` writes. */
export function renderMap(environment: Environment): string {
  const objects = renderEnvironment(environment, readEgressPolicy()).flatMap((app) => app.objects)
  return mapSvg(mapModel(objects, environment))
}
