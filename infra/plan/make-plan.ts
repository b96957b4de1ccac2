import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Plan } from '../../contracts/planned-resource.ts'
import { CONFIG_NAMESPACE } from '../config-schema.ts'
import { runProgram } from '../engine/run-program.ts'

interface ProjectFile {
  readonly main: string
  readonly runtime: { readonly options?: { readonly nodeargs?: string } }
}
interface StackFile {
  readonly config?: Readonly<Record<string, unknown>>
}

/**
 * Plans one stack of the project in a folder from its committed file, `Pulumi.<stack>.yaml`, with the program and the
 * arguments of Node that `Pulumi.yaml` names.
 */
export async function makePlan(root: string, stack: string): Promise<Plan> {
  const read = async (file: string) => parse(await readFile(join(root, file), 'utf8')) as unknown
  const { main, runtime } = (await read('Pulumi.yaml')) as ProjectFile
  const { config = {} } = ((await read(`Pulumi.${stack}.yaml`)) ?? {}) as StackFile
  return runProgram({
    project: CONFIG_NAMESPACE,
    stack,
    program: join(root, main),
    nodeArguments: runtime.options?.nodeargs?.split(' ') ?? [],
    config: { ...config, [`${CONFIG_NAMESPACE}:plan`]: 'true' },
  })
}
