"""Operations of migrations that make many tables at once."""

from typing import Any

from django.db import migrations


class CreateTables(migrations.SeparateDatabaseAndState):
    """Creates the models of `operations`, with the fields, indexes and constraints that later ones of them add.

    Django builds all related models anew for each single operation, which takes seconds for so many.
    """

    def __init__(self, operations: list[Any]) -> None:
        super().__init__(state_operations=operations)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__qualname__, [self.state_operations], {}

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for operation in self.state_operations:
            if isinstance(operation, migrations.CreateModel):
                model = to_state.apps.get_model(app_label, operation.name)
                if self.allow_migrate_model(schema_editor.connection.alias, model):
                    schema_editor.create_model(model)
