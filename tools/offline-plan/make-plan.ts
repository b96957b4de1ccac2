import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { Plan } from '../../contracts/planned-resource.ts'
import { CONFIG_NAMESPACE } from '../../infra/config-schema.ts'
import { problemLines } from '../../infra/config-sections.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { ProgramError, runProgram } from './engine/run-program.ts'

interface ProjectFile {
  readonly main: string
  readonly runtime: { readonly options?: { readonly nodeargs?: string } }
}

/**
 * Plans one stack of the project in a folder from its committed file, `Pulumi.<stack>.yaml`, with the program and the
 * arguments of Node that `Pulumi.yaml` names.
 */
export async function makePlan(root: string, stack: string): Promise<Plan> {
  const read = (file: string) => readFile(join(root, file), 'utf8')
  const { main, runtime } = parse(await read('Pulumi.yaml')) as ProjectFile
  const { config, problems } = readStackText(await read(`Pulumi.${stack}.yaml`))
  if (problems.length > 0) throw new ProgramError(problemLines(`Pulumi.${stack}.yaml`, problems))
  return runProgram({
    project: CONFIG_NAMESPACE,
    stack,
    program: join(root, main),
    nodeArguments: runtime.options?.nodeargs?.split(' ') ?? [],
    config: { ...config, [`${CONFIG_NAMESPACE}:plan`]: 'true' },
  })
}
