import { createContext, useContext } from 'react'
import type { SpawnForm } from './form.ts'

/** Opens the form for a new dispatch, empty or filled in. Nothing starts before the person says so. */
export type OpenSpawn = (form?: Partial<SpawnForm>) => void

export const SpawnContext = createContext<OpenSpawn>(() => {})
export const useSpawn = (): OpenSpawn => useContext(SpawnContext)
