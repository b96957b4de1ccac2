import type { Chart } from 'cdk8s'
import type { Environment } from '../environment/schema.ts'

export function addNetwork(_chart: Chart, _environment: Environment): void {}
