import { closeSync } from 'node:fs'
import type { FileOperation, FileOperationInput, FileResult } from '../../contracts/files.ts'
import type { FileAnswer } from '../../contracts/toolbox.ts'
import type { PathEngine } from './engines/path-engine.ts'
import { toFileError } from './file-fault.ts'
import { guardRefusal, type WorkspaceGuard } from './guard.ts'
import { openRoot, selectEngine } from './open-root.ts'
import { makeDirectoryAt, renameFile } from './operations/arrange.ts'
import { listDirectory, statFile } from './operations/inspect.ts'
import { readFile } from './operations/read.ts'
import { removeFile } from './operations/remove.ts'
import { writeFile } from './operations/write.ts'
import { parseOperation } from './parse-operation.ts'
import type { Tree } from './tree.ts'

/** Access to the files of one workspace, and to no other file of the machine. */
export interface WorkspaceEngine extends Tree {
  /** Absolute, real path of the root. */
  readonly path: string
  /** Whether operations on git's own files are denied. */
  readonly isGuarded: boolean
  /** Performs one operation. Denials and failures are returned as results, never thrown. */
  perform(
    operation: FileOperationInput,
    io?: { payload?: Uint8Array | undefined; signal?: AbortSignal | undefined },
  ): Promise<FileAnswer>
  close(): void
}

export interface OpenOptions {
  /** Forces one of the two path engines. @default the best one that works here */
  readonly engine?: PathEngine['name']
  /** Set for a workspace that is a user's own folder. @default nothing is guarded */
  readonly guard?: WorkspaceGuard | undefined
}

const NOTHING = new Uint8Array()

/** Loads the search code, which is most of the engine's code. The first search loads it otherwise. */
export async function loadSearch() {
  const [{ findFiles }, { grepFiles }] = await Promise.all([
    import('./search/find.ts'),
    import('./search/grep.ts'),
  ])
  return { findFiles, grepFiles }
}

/** Opens a workspace. Throws a FileFault if the root does not exist, is not a directory, or is a link. */
export async function openWorkspace(path: string, options: OpenOptions = {}): Promise<WorkspaceEngine> {
  const { guard } = options
  const root = openRoot(path)
  const tree: Tree = { root, engine: await engineOrClose(root, options.engine) }
  return {
    ...tree,
    path: root.path,
    isGuarded: guard !== undefined,
    async perform(input, io = {}) {
      const parsed = parseOperation(input)
      if (!parsed.ok) return answerOf(parsed.error)
      try {
        const refusal = guard && guardRefusal(guard, parsed.operation)
        if (refusal) return answerOf(refusal)
        const answer = await carryOut(tree, parsed.operation, io)
        return 'payload' in answer ? answer : answerOf(answer)
      } catch (error) {
        return answerOf(toFileError(error, describe(parsed.operation)))
      }
    },
    close: () => closeSync(root.fd),
  }
}

async function engineOrClose(
  root: Tree['root'],
  wanted: PathEngine['name'] | undefined,
): Promise<PathEngine> {
  try {
    return await selectEngine(root, wanted)
  } catch (error) {
    closeSync(root.fd)
    throw error
  }
}

const answerOf = (result: FileResult): FileAnswer => ({ result, payload: NOTHING })

/** The name of the operation's target in error messages. */
const describe = (operation: FileOperation): string =>
  'path' in operation ? operation.path : 'from' in operation ? operation.from : `the ${operation.op}`

async function carryOut(
  tree: Tree,
  operation: FileOperation,
  io: { payload?: Uint8Array | undefined; signal?: AbortSignal | undefined },
): Promise<FileAnswer | FileResult> {
  io.signal?.throwIfAborted()
  switch (operation.op) {
    case 'read':
      return readFile(tree, operation)
    case 'write':
      return writeFile(tree, operation, io.payload ?? NOTHING)
    case 'stat':
      return statFile(tree, operation)
    case 'list':
      return listDirectory(tree, operation)
    case 'mkdir':
      return makeDirectoryAt(tree, operation)
    case 'delete':
      return removeFile(tree, operation, io.signal)
    case 'rename':
      return renameFile(tree, operation)
    case 'grep':
      return (await loadSearch()).grepFiles(tree, operation, io.signal)
    case 'find':
      return (await loadSearch()).findFiles(tree, operation, io.signal)
  }
}
