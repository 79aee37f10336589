interface Table {
  readonly name: string;
  readonly columns: readonly string[];
}

/** Reads the names and columns of the service's tables in a database. */
export async function tables(database: D1Database): Promise<Table[]> {
  const { results } = await database
    .prepare(
      `SELECT m.name AS name, group_concat(c.name) AS columns
     FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
     WHERE m.type = 'table' AND m.name NOT LIKE '\\_cf%' ESCAPE '\\' AND m.name NOT LIKE 'sqlite%'
       AND m.name <> 'd1_migrations'
     GROUP BY m.name`,
    )
    .all<{ name: string; columns: string }>();
  return results.map(({ name, columns }) => ({ name, columns: columns.split(",") }));
}

/**
 * Reads all rows of these tables. Values are returned as SQL literals, because D1 rounds large
 * integers.
 */
export async function contents(
  database: D1Database,
  of: readonly Table[],
): Promise<Record<string, string[]>> {
  const rowsOf = async ({ name, columns }: Table): Promise<[string, string[]]> => {
    const row = columns.map((column) => `quote("${column}")`).join(" || ',' || ");
    const query = database.prepare(`SELECT ${row} AS row FROM "${name}" ORDER BY 1`);
    const { results } = await query.all<{ row: string }>();
    return [name, results.map((result) => result.row)];
  };
  return Object.fromEntries(await Promise.all(of.map(rowsOf)));
}

/** Returns the columns that are `NULL` in every row, as `table.column`. */
export async function emptyColumns(database: D1Database): Promise<string[]> {
  const empty: string[] = [];
  for (const { name, columns } of await tables(database)) {
    for (const column of columns) {
      const query = database.prepare(`SELECT count("${column}") AS count FROM "${name}"`);
      if ((await query.first("count")) === 0) empty.push(`${name}.${column}`);
    }
  }
  return empty;
}
