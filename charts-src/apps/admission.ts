import type { Chart } from 'cdk8s'
import { admissionObjects } from '../admission/admission-objects.ts'
import { addObject } from '../constructs/plain-object.ts'
import type { Environment } from '../environment/schema.ts'

export function addAdmission(chart: Chart, environment: Environment): void {
  for (const object of admissionObjects(environment)) addObject(chart, object)
}
