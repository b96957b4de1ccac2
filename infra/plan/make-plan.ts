import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Plan } from '../../contracts/planned-resource.ts'
import { CONFIG_NAMESPACE } from '../config-schema.ts'
import { runProgram } from '../engine/run-program.ts'

/** Plans one stack of the project in a folder from its committed file: `Pulumi.<stack>.yaml`. */
export async function makePlan(root: string, stack: string): Promise<Plan> {
  const { config = {} } = (parse(await readFile(join(root, `Pulumi.${stack}.yaml`), 'utf8')) ?? {}) as {
    config?: Record<string, unknown>
  }
  return runProgram({
    project: CONFIG_NAMESPACE,
    stack,
    program: join(root, 'infra'),
    config: { ...config, [`${CONFIG_NAMESPACE}:plan`]: 'true' },
  })
}
