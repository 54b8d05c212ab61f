import type { UseQueryResult } from '@tanstack/react-query'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { OrangeryError } from '../../shared/errors.ts'
import { useAnswer } from '../client/queries.ts'

/** More than anybody looks through; what runs or waits for a person is among them however old it is. */
const newest = 500

/** The dispatches that the window speaks of: one list for all its pages. */
export const useDispatches = (): UseQueryResult<DispatchRow[], OrangeryError> =>
  useAnswer('dispatch.list', { limit: newest, waiting: true })
