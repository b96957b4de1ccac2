import { readConfig } from './config.ts'
import { buildStack } from './stack.ts'

const stack = await buildStack(await readConfig())

/** The section `infra` of the environment's file: `npm run environment -- --stack <name>` writes it. */
export const infra = stack.infra
/** The outputs that the next layer reads, if this stack is a layer of a platform. */
export const boundary = stack.boundary
/** Resource groups that contain all resources of this stack. A destroy removes them too. */
export const resourceGroups = stack.resourceGroups
/** Further outputs for people, such as the resources that a destroy leaves and the time when a slice expires. */
export const about = { ...stack, infra: undefined, resourceGroups: undefined, boundary: undefined }
