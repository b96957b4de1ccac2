import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Properties } from '../values.ts'

/** One resource as the last run left it. */
export interface ResourceState {
  readonly urn: string
  readonly type: string
  readonly name: string
  readonly custom: boolean
  readonly id: string
  readonly parent?: string
  /** `<urn>::<id>` of the provider that made it. */
  readonly provider?: string
  readonly inputs: Properties
  readonly outputs: Properties
  readonly dependencies: readonly string[]
  readonly protect: boolean
  readonly retainOnDelete: boolean
  readonly deletedWith?: string
  /** Replaced, and not yet deleted. */
  readonly isCondemned?: boolean
  /** Why it is not what was asked for, although it exists. */
  readonly initErrors?: readonly string[]
}

/** State of a stack, in a file where there is one: written whole after each step, so that a kill loses no object. */
export function openState(file?: string) {
  let resources: readonly ResourceState[] = file === undefined ? [] : readState(file)
  const save = (next: readonly ResourceState[]) => {
    resources = next
    if (file === undefined) return
    writeFileSync(`${file}.draft`, JSON.stringify(next))
    renameSync(`${file}.draft`, file)
  }
  return {
    list: () => resources,
    get: (urn: string) => resources.find((one) => one.urn === urn && one.isCondemned !== true),
    /** In the order of creation: what is written again keeps its place. */
    put(state: ResourceState): void {
      const index = resources.findIndex((one) => one.urn === state.urn && one.isCondemned !== true)
      save(index < 0 ? [...resources, state] : resources.with(index, state))
    },
    remove: (state: ResourceState) => save(resources.filter((one) => one !== state)),
    condemn(state: ResourceState): ResourceState {
      const condemned = { ...state, isCondemned: true }
      save(resources.map((one) => (one === state ? condemned : one)))
      return condemned
    },
  }
}
export type StackState = ReturnType<typeof openState>

function readState(file: string): readonly ResourceState[] {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as readonly ResourceState[]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
