import { ApiObject } from 'cdk8s'
import type { Construct } from 'constructs'
import type { KubeObject } from '../kube-object.ts'

/**
 * Adds an object that is already plain data. The construct id contains its kind and name, so cdk8s throws on
 * a duplicate.
 */
export function addObject(scope: Construct, object: KubeObject): ApiObject {
  const { apiVersion, kind, metadata } = object
  const id = [apiVersion.replace('/', '.'), kind, metadata.namespace ?? '', metadata.name].join(':')
  return new ApiObject(scope, id, object)
}
