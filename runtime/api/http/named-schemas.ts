import * as z from 'zod'
import { Plan, PlanStep, RequestedAgent } from '../../../contracts/agents.ts'
import {
  AnswerQuestion,
  Approval,
  ApprovalPage,
  ApproveShell,
  ApproveTool,
  CreateSandbox,
  DenyShell,
  DenyTool,
  EventPage,
  FileListing,
  FinishedCommand,
  FolderMode,
  ForkRun,
  Health,
  Labels,
  Readiness,
  Run,
  RunPage,
  RunState,
  StartCommand,
  StartedCommand,
  StartRun,
  StartTurn,
  Turn,
  WorkspaceSource,
} from '../../../contracts/api.ts'
import { AuditChain, AuditEntry, AuditPage, AuditVerification } from '../../../contracts/audit.ts'
import { BackendName } from '../../../contracts/backends.ts'
import { Budgets, BudgetUses } from '../../../contracts/budgets.ts'
import { ErrorCode, Problem } from '../../../contracts/errors.ts'
import { RunEnvelope, RunEvent, RunSource } from '../../../contracts/events.ts'
import {
  CommandShell,
  ExecResult,
  Isolation,
  OutputStream,
  TerminationReason,
} from '../../../contracts/exec.ts'
import { FileEntry } from '../../../contracts/files.ts'
import { SandboxSettings, SandboxSettingsPatch, SettingsOrigin, Verdict } from '../../../contracts/policy.ts'
import {
  Restriction,
  RestrictionLevel,
  RestrictionList,
  RestrictionScope,
  SetRestriction,
} from '../../../contracts/restrictions.ts'
import { ChangedFile, RunDiff } from '../../../contracts/results.ts'
import { DeniedEgress, RunEgress } from '../../../contracts/run-egress.ts'
import { ToolOutcome } from '../../../contracts/tools.ts'
import {
  SettingsComparison,
  TrustedFolder,
  TrustedFolderPage,
  TrustFolder,
} from '../../../contracts/trusted-folders.ts'

/** Schemas with a name in the OpenAPI document. All others are inlined. */
const NAMED = {
  AnswerQuestion,
  Approval,
  ApprovalPage,
  ApproveShell,
  ApproveTool,
  AuditChain,
  AuditEntry,
  AuditPage,
  AuditVerification,
  BackendName,
  BudgetUses,
  Budgets,
  ChangedFile,
  CommandShell,
  CreateSandbox,
  DeniedEgress,
  DenyShell,
  DenyTool,
  ErrorCode,
  EventPage,
  ExecResult,
  FileEntry,
  FileListing,
  FinishedCommand,
  FolderMode,
  ForkRun,
  Health,
  Isolation,
  Labels,
  OutputStream,
  Plan,
  PlanStep,
  Problem,
  Readiness,
  RequestedAgent,
  Restriction,
  RestrictionLevel,
  RestrictionList,
  RestrictionScope,
  Run,
  RunDiff,
  RunEgress,
  RunEnvelope,
  RunEvent,
  RunPage,
  RunSource,
  RunState,
  SandboxSettings,
  SandboxSettingsPatch,
  SetRestriction,
  SettingsComparison,
  SettingsOrigin,
  StartCommand,
  StartRun,
  StartTurn,
  StartedCommand,
  TerminationReason,
  ToolOutcome,
  TrustFolder,
  TrustedFolder,
  TrustedFolderPage,
  Turn,
  Verdict,
  WorkspaceSource,
}

/** Maps each named schema to its name, which generators use as a type name. */
export function namedSchemas() {
  const registry = z.registry<{ id: string }>()
  const all: Record<string, z.ZodType> = {
    ...NAMED,
    ...variantsOf(PlanStep, { key: 'kind', suffix: 'Step' }),
    ...variantsOf(RequestedAgent, { key: 'kind', suffix: 'Agent' }),
    ...variantsOf(RunEvent, { key: 'type', suffix: 'Event' }),
    ...variantsOf(WorkspaceSource, { key: 'kind', suffix: 'Workspace' }),
    ToolSuccess: ToolOutcome.options[0],
    ToolFailure: ToolOutcome.options[1],
  }
  for (const [id, schema] of Object.entries(all)) registry.add(schema, { id })
  return registry
}

type Union = { readonly options: readonly z.ZodObject[] }

/** For example, the event variant `tool.call` gets the name `ToolCallEvent`. */
function variantsOf({ options }: Union, { key, suffix }: { key: string; suffix: string }) {
  return Object.fromEntries(
    options.map((option) => {
      const { value } = option.shape[key] as z.ZodLiteral<string>
      return [`${toPascalCase(value)}${suffix}`, option]
    }),
  )
}

const toPascalCase = (words: string) =>
  words.replaceAll(/(?:^|[._-])(\w)/g, (_match, letter: string) => letter.toUpperCase())
