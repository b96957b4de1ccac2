import { SandboxError } from '../kit/errors.ts'

type Request = {
  readonly kind: string
  readonly model?: string | undefined
  readonly charter?: string | undefined
}

export function requiredModel({ kind, model }: Request): string {
  if (model !== undefined) return model
  throw invalidRequest(`an agent of kind ${kind} needs a model: name it in agent.model`)
}

/** The charter as an optional field, because the schema of the configuration rejects `undefined`. */
export const charterOf = ({ charter }: Request): { readonly charter?: string } =>
  charter === undefined ? {} : { charter }

export const invalidRequest = (message: string) => new SandboxError('invalid_request', message)
