import {
  ApiKeyPage,
  type CreateApiKeyInput,
  CreatedApiKey,
  Me,
  RevokedApiKey,
} from '../../contracts/api-keys.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import {
  type SetUserCredential,
  SetUserCredentialAnswer,
  UserCredential,
  type UserCredentialKind,
  UserCredentialList,
  type UserCredentialQuery,
} from '../../contracts/user-credentials.ts'
import type { CallOptions, PageQuery, Parts } from './call-parts.ts'

export function keyCalls({ call }: Parts) {
  const path = API_ROUTES.keys
  return {
    /** The owner and the role of this client's credential. */
    readMe: (options?: CallOptions) => call(Me, { method: 'GET', path: API_ROUTES.me, ...options }),
    /** The only response with the secret. */
    createApiKey: (json: CreateApiKeyInput, options?: CallOptions) =>
      call(CreatedApiKey, { method: 'POST', path, json, ...options }),
    /** Newest first. */
    listApiKeys: (query: PageQuery = {}, options?: CallOptions) =>
      call(ApiKeyPage, { method: 'GET', path, query, ...options }),
    revokeApiKey: (id: string, options?: CallOptions) =>
      call(RevokedApiKey, { method: 'DELETE', path: `${path}/${encodeURIComponent(id)}`, ...options }),
  }
}

export function credentialCalls({ call }: Parts) {
  const path = API_ROUTES.userCredentials
  return {
    /** Sets a credential of the caller. A repeated call changes nothing. */
    setCredential: (kind: UserCredentialKind, json: SetUserCredential, options?: CallOptions) =>
      call(SetUserCredentialAnswer, { method: 'PUT', path: `${path}/${kind}`, json, ...options }),
    listCredentials: (options?: CallOptions) => call(UserCredentialList, { method: 'GET', path, ...options }),
    removeCredential: (kind: UserCredentialKind, query: UserCredentialQuery, options?: CallOptions) =>
      call(UserCredential, { method: 'DELETE', path: `${path}/${kind}`, query, ...options }),
  }
}
