"""Operations of migrations that make or change many tables at once.

Django builds all related models anew for each single operation, which takes seconds for so many.
"""

from typing import Any

from django.db import migrations


class ChangeTables(migrations.SeparateDatabaseAndState):
    """Runs `operations` on models that exist, of which none may depend on the state that another one leaves."""

    def __init__(self, operations: list[Any]) -> None:
        super().__init__(state_operations=operations)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__qualname__, [self.state_operations], {}

    def state_forwards(self, app_label: str, state: Any) -> None:
        # Without models that are built already, an operation changes only their description.
        vars(state).pop("apps", None)
        super().state_forwards(app_label, state)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for operation in self.state_operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for operation in reversed(self.state_operations):
            operation.database_backwards(app_label, schema_editor, from_state, to_state)


class CreateTables(ChangeTables):
    """Creates the models of `operations`, with the fields, indexes and constraints that later ones of them add."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for operation in self.state_operations:
            if isinstance(operation, migrations.CreateModel):
                model = to_state.apps.get_model(app_label, operation.name)
                if self.allow_migrate_model(schema_editor.connection.alias, model):
                    schema_editor.create_model(model)
