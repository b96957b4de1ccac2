import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ExecRequest } from '../../contracts/exec.ts'
import {
  OTHER_FOLDER,
  workspaceProblem,
  workspaceProof,
} from '../../runtime/executors/process/mounted-workspace.ts'
import { supervise } from '../../runtime/executors/process/supervise.ts'
import { witnessScript } from '../../runtime/executors/process/witness.ts'
import { folderIdentity } from '../../runtime/executors/rootfs/folder-identity.ts'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'

describe('the proof that a workspace is the folder that it was', () => {
  let above: string
  let workspace: string

  beforeEach(async () => {
    above = await temporaryFolder()
    workspace = join(above, 'project')
    await mkdir(workspace)
  })
  afterEach(() => rm(above, { recursive: true }))

  /** A witness with neither namespaces nor mounts: it has to look by itself. */
  function witness(identity: string) {
    const args = ['-c', witnessScript(), 'sh', workspace, '.', 'echo ran', identity]
    let output = ''
    const onChunk = (_stream: string, chunk: Uint8Array) => {
      output += String(chunk)
    }
    const launch = { file: '/bin/sh', args, env: {}, hasPidNamespace: false }
    return supervise(launch, ExecRequest.parse({ command: 'echo ran' }), { onChunk }).then((result) => ({
      ...result,
      output,
    }))
  }

  it('is the supervisor’s where it can look into the sandbox, and the witness’s where it cannot', async () => {
    const identity = await folderIdentity(workspace)

    expect(await workspaceProof(workspace, true)).toEqual({ forWitness: '', forSupervisor: identity })
    expect(await workspaceProof(workspace, false)).toEqual({ forWitness: identity, forSupervisor: undefined })
  })

  it('lets a witness that looks by itself start nothing in another folder', async () => {
    const [same, other] = [await folderIdentity(workspace), await folderIdentity(above)]

    expect(await witness(same)).toMatchObject({ exitCode: 0, output: 'ran\n' })
    expect(await witness(other)).toMatchObject({ reason: 'spawn_failed', message: OTHER_FOLDER, output: '' })
  })

  it('fails where nobody can be looked at, or what is looked at has no workspace', async () => {
    const identity = await folderIdentity(workspace)

    expect(await workspaceProblem(undefined, identity)).toMatch(
      /^the workspace cannot be seen in the sandbox/,
    )
    expect(await workspaceProblem(process.pid, identity)).toMatch(
      /^the workspace cannot be seen in the sandbox/,
    )
  })

  it('stops a command whose sandbox cannot be looked at', async () => {
    const args = ['-c', witnessScript(), 'sh', workspace, '.', 'echo ran', '']
    const launch = { file: '/bin/sh', args, env: {}, hasPidNamespace: false, workspaceIdentity: '1:2' }

    const result = await supervise(launch, ExecRequest.parse({ command: 'echo ran' }), {
      onChunk: () => expect.unreachable('the command must not run'),
    })

    expect(result).toMatchObject({ reason: 'spawn_failed', exitCode: null, stdoutBytes: 0 })
  })
})
