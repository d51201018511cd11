"""Who gets in where: every endpoint of the API and every page, by everybody who may knock.

The tables are the contract. An endpoint or page that no row names fails the test: whoever adds one decides here
whom it is for.
"""

import functools
import re
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import get_resolver, reverse
from django.urls.resolvers import URLResolver
from django_q.models import Schedule

from context.expectations.services import expectation_create, request_of
from identity.models import ApiToken, AuditEvent
from identity.principal import Principal
from identity.services.oauth import oauth_client_register
from identity.services.people import invitation_create, person_agents_set
from identity.services.proposals import identity_propose, proposal_approve, proposal_reject
from identity.services.webhooks import webhook_create
from memory.jobs import job_queue
from memory.models import FactChange, Subject
from memory.services.censors import censor_create
from memory.services.decisions import decision_record
from memory.services.documents import document_put
from memory.services.episodes import episode_open
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create
from memory.services.working_memory import working_item_add, working_thread_open
from memory.transfer.file_runs import export_start, import_create
from nousweb.api import api as the_api
from tests.http import ApiClient, markup, signed_in

# Statuses by caller: nobody, Alice (viewer), Bob (reviewer), Charlie (administrator), Ada's token, Ada's token with
# every scope, Bruno's token, a revoked and an expired one of Ada's. All of them ask about Ada.
CALLERS = ("nobody", "alice", "bob", "charlie", "token", "everything", "other", "revoked", "expired")
API = """
GET    /api/identity                        401 200 200 200 200 200 404 401 401
GET    /api/identity/{section}              401 200 200 200 200 200 404 401 401
PUT    /api/identity/{section}              401 403 200 200 202 202 404 401 401
GET    /api/identity/{section}/history      401 200 200 200 200 200 404 401 401
GET    /api/identity/{section}/diff         401 200 200 200 200 200 404 401 401
GET    /api/proposals/{proposal_id}         401 200 200 200 200 200 404 401 401
POST   /api/reinitiate                      401 403 403 200 403 403 404 401 401
GET    /api/settings                        401 200 200 200 403 403 404 401 401
PUT    /api/settings                        401 403 403 200 403 403 404 401 401
GET    /api/settings/history                401 200 200 200 403 403 404 401 401
POST   /api/settings/restore                401 403 403 200 403 403 404 401 401
GET    /api/changes                         401 200 200 200 200 200 404 401 401
GET    /api/webhooks                        401 403 403 200 403 403 404 401 401
POST   /api/webhooks                        401 403 403 201 403 403 404 401 401
PATCH  /api/webhooks/{webhook_id}           401 403 403 200 403 403 404 401 401
DELETE /api/webhooks/{webhook_id}           401 403 403 204 403 403 404 401 401
GET    /api/webhooks/{webhook_id}/deliveries 401 403 403 200 403 403 404 401 401
POST   /api/webhooks/{webhook_id}/replay    401 403 403 200 403 403 404 401 401
POST   /api/facts                           401 403 201 201 201 201 404 401 401
GET    /api/facts                           401 200 200 200 200 200 404 401 401
GET    /api/facts/{fact_id}                 401 200 200 200 200 200 404 401 401
PATCH  /api/facts/{fact_id}                 401 403 200 200 403 403 404 401 401
GET    /api/facts/{fact_id}/history         401 200 200 200 200 200 404 401 401
POST   /api/facts/{fact_id}/confirm         401 403 200 200 200 200 404 401 401
POST   /api/facts/{fact_id}/expiry          401 403 200 200 200 200 404 401 401
POST   /api/facts/{fact_id}/supersede       401 403 200 200 200 200 404 401 401
POST   /api/facts/{fact_id}/invalidate      401 403 200 200 403 403 404 401 401
POST   /api/facts/{fact_id}/restore         401 403 409 409 403 403 404 401 401
GET    /api/profile                         401 200 200 200 200 200 404 401 401
GET    /api/subjects                        401 200 200 200 200 200 404 401 401
POST   /api/subjects                        401 403 201 201 403 403 404 401 401
GET    /api/subjects/{subject_id}           401 200 200 200 200 200 404 401 401
PATCH  /api/subjects/{subject_id}           401 403 200 200 403 403 404 401 401
GET    /api/subjects/{subject_id}/history   401 200 200 200 200 200 404 401 401
POST   /api/subjects/{subject_id}/aliases   401 403 200 200 403 403 404 401 401
POST   /api/subjects/{subject_id}/merge     401 403 404 404 403 403 404 401 401
POST   /api/subjects/{subject_id}/split     401 403 422 422 403 403 404 401 401
POST   /api/subjects/{subject_id}/undo      401 403 404 404 403 403 404 401 401
POST   /api/events                          401 403 403 403 201 201 404 401 401
GET    /api/events                          401 200 200 200 200 200 404 401 401
GET    /api/events/{event_id}               401 200 200 200 200 200 404 401 401
GET    /api/loops                           401 200 200 200 200 200 404 401 401
GET    /api/loops/{loop_id}                 401 200 200 200 200 200 404 401 401
POST   /api/loops/{loop_id}/close           401 403 403 403 200 200 404 401 401
GET    /api/stm                             401 200 200 200 200 200 404 401 401
GET    /api/recall                          401 200 200 200 200 200 404 401 401
GET    /api/recall/recent                   401 200 200 200 200 200 404 401 401
GET    /api/recall/{type}/{memory_id}       401 200 200 200 200 200 404 401 401
GET    /api/index                           401 200 200 200 200 200 404 401 401
POST   /api/episodes                        401 403 201 201 201 201 404 401 401
GET    /api/episodes                        401 200 200 200 200 200 404 401 401
GET    /api/episodes/{episode_id}           401 200 200 200 200 200 404 401 401
PATCH  /api/episodes/{episode_id}           401 403 200 200 200 200 404 401 401
POST   /api/episodes/{episode_id}/events    401 403 200 200 200 200 404 401 401
POST   /api/episodes/{episode_id}/close     401 403 200 200 200 200 404 401 401
POST   /api/decisions                       401 403 201 201 201 201 404 401 401
GET    /api/decisions                       401 200 200 200 200 200 404 401 401
GET    /api/decisions/{decision_id}         401 200 200 200 200 200 404 401 401
PATCH  /api/decisions/{decision_id}         401 403 200 200 200 200 404 401 401
POST   /api/decisions/{decision_id}/review  401 403 200 200 200 200 404 401 401
PUT    /api/documents                       401 403 200 200 200 200 404 401 401
GET    /api/documents                       401 200 200 200 200 200 404 401 401
GET    /api/documents/item                  401 200 200 200 200 200 404 401 401
DELETE /api/documents/item                  401 403 200 200 200 200 404 401 401
POST   /api/documents/refresh               401 403 200 200 200 200 404 401 401
POST   /api/sources                         401 403 200 200 200 200 404 401 401
POST   /api/documents/search                401 200 200 200 200 200 404 401 401
GET    /api/documents/namespaces            401 200 200 200 200 200 404 401 401
GET    /api/documents/{document_id}         401 200 200 200 200 200 404 401 401
GET    /api/documents/{document_id}/versions 401 200 200 200 200 200 404 401 401
POST   /api/documents/{document_id}/restore 401 403 409 409 403 403 404 401 401
POST   /api/documents/{document_id}/expiry  401 403 200 200 200 200 404 401 401
POST   /api/documents/{document_id}/release 401 403 409 409 403 403 404 401 401
POST   /api/procedures                      401 403 201 201 201 201 404 401 401
GET    /api/procedures                      401 200 200 200 200 200 404 401 401
GET    /api/procedures/{procedure_id}       401 200 200 200 200 200 404 401 401
PATCH  /api/procedures/{procedure_id}       401 403 200 200 200 200 404 401 401
POST   /api/procedures/{procedure_id}/activate 401 403 200 200 200 200 404 401 401
POST   /api/procedures/{procedure_id}/report 401 403 200 200 200 200 404 401 401
POST   /api/censors                         401 403 201 201 201 201 404 401 401
GET    /api/censors                         401 200 200 200 200 200 404 401 401
POST   /api/censors/check                   401 403 200 200 200 200 404 401 401
GET    /api/censors/{censor_id}             401 200 200 200 200 200 404 401 401
PATCH  /api/censors/{censor_id}             401 403 200 200 403 403 404 401 401
POST   /api/censors/{censor_id}/false-positive 401 403 200 200 403 403 404 401 401
GET    /api/working/{session_id}            401 200 200 200 200 200 404 401 401
PUT    /api/working/{session_id}            401 403 403 403 200 200 404 401 401
DELETE /api/working/{session_id}            401 403 403 403 204 204 404 401 401
POST   /api/working/{session_id}/items      401 403 403 403 201 201 404 401 401
DELETE /api/working/{session_id}/items/{item_id} 401 403 403 403 204 204 404 401 401
POST   /api/working/{session_id}/threads    401 403 403 403 201 201 404 401 401
DELETE /api/working/{session_id}/threads/{thread_id} 401 403 403 403 204 204 404 401 401
GET    /api/reviews                         401 200 200 200 200 200 404 401 401
GET    /api/reviews/{review_id}             401 200 200 200 200 200 404 401 401
POST   /api/reviews/{review_id}/resolve     401 403 200 200 403 403 404 401 401
POST   /api/reviews/{review_id}/undo        401 403 409 409 403 403 404 401 401
GET    /api/lifecycle                       401 200 200 200 200 200 404 401 401
POST   /api/context                         401 200 200 200 200 200 404 401 401
POST   /api/context/{run_id}/response       401 403 200 200 200 200 404 401 401
POST   /api/context/{run_id}/outcome        401 403 200 200 200 200 404 401 401
GET    /api/expectations                    401 200 200 200 403 200 404 401 401
POST   /api/expectations                    401 403 201 201 403 403 404 401 401
POST   /api/expectations/run                401 403 200 200 403 200 404 401 401
GET    /api/expectations/{expectation_id}   401 200 200 200 403 200 404 401 401
PATCH  /api/expectations/{expectation_id}   401 403 200 200 403 403 404 401 401
DELETE /api/expectations/{expectation_id}   401 403 204 204 403 403 404 401 401
GET    /api/expectations/{expectation_id}/results 401 200 200 200 403 200 404 401 401
GET    /api/fingerprints                    401 200 200 200 200 200 404 401 401
GET    /api/users                           401 403 403 200 403 200 404 401 401
GET    /api/users/export                    401 403 403 200 403 200 404 401 401
POST   /api/users/assign                    401 403 403 200 403 403 404 401 401
POST   /api/users/erase                     401 403 403 200 403 200 404 401 401
"""
EVENTS = {"events": [{"kind": "user_input", "content": "Hello.", "loop_id": "loop-1"}]}
BODIES = {
    "POST /api/events": EVENTS,
    "PUT /api/identity/{section}": {"content": "Check twice.", "mode": "auto"},
    "PUT /api/settings": {"budgets": {"facts": 400}},
    "POST /api/settings/restore": {"version": 0},
    "POST /api/webhooks": {"url": "https://example.org/", "scopes": ["memory:read"]},
    "POST /api/facts": {"content": "Tim sails."},
    "PATCH /api/facts/{fact_id}": {"importance": 0.9},
    "POST /api/facts/{fact_id}/supersede": {"by": {"content": "Tim rows."}},
    "POST /api/subjects": {"name": "Quux"},
    "PATCH /api/subjects/{subject_id}": {"kind": "person"},
    "POST /api/subjects/{subject_id}/aliases": {"spelling": "Timmy"},
    "POST /api/subjects/{subject_id}/merge": {"into": str(uuid4())},
    "POST /api/subjects/{subject_id}/undo": {"change": str(uuid4())},
    "POST /api/reviews/{review_id}/resolve": {"resolution": "both"},
    "POST /api/context": {"session_id": "s", "input": "?"},
    "POST /api/context/{run_id}/response": {"response": "It is sunny."},
    "POST /api/context/{run_id}/outcome": {"outcome": "success"},
    "POST /api/expectations": {
        "request": {"input": "?"},
        "requirement": "present",
        "target": "section",
        "section": "frame",
    },
    "PATCH /api/expectations/{expectation_id}": {"section": "identity"},
    "POST /api/episodes/{episode_id}/events": {"text": "Tim sails."},
    "POST /api/decisions": {"description": "Sail."},
    "POST /api/decisions/{decision_id}/review": {"outcome": "success"},
    "PUT /api/documents": {"namespace": ["notes"], "key": "sea", "value": {"text": "Sail."}},
    "POST /api/documents/refresh": {"ids": ["00000000-0000-4000-8000-000000000000"]},
    "POST /api/sources": {"path": "docs/a.md", "sha256": "0" * 64},
    "POST /api/documents/search": {"query": "sail"},
    "POST /api/users/assign": {"user": "mia"},
    "POST /api/users/erase": {"user": "mia", "reason": "Asked."},
    "POST /api/procedures": {"name": "Sail"},
    "POST /api/procedures/{procedure_id}/report": {"success": True},
    "POST /api/censors": {"pattern": "sail"},
    "POST /api/censors/check": {"text": "sail"},
    "POST /api/working/{session_id}/items": {"text": "Sail."},
    "POST /api/working/{session_id}/threads": {"text": "Sail."},
}
QUERIES = {
    "/api/identity/{section}/diff": {"from": "1", "to": "1"},
    "/api/stm": {"q": "hello"},
    "/api/recall": {"q": "hello"},
    "/api/documents/item": {"namespace": "notes", "key": "sea"},
    "/api/users/export": {"user": "mia"},
}

# Pages by who looks: "in", "login" (sent to the login page), "no" (403), "405". Any bearer token is nobody here.
VISITORS = ("nobody", "alice", "bob", "charlie", "everything")
# The forms carry a person's CSRF token; whatever the page then thinks of the form's values counts as "in".
PAGES = """
GET    healthz                        in    in    in    in    in
GET    readyz                         in    in    in    in    in
GET    metrics                        in    in    in    in    in
GET    oauth_resource                 in    in    in    in    in
GET    oauth_resource_mcp             in    in    in    in    in
GET    oauth_server                   in    in    in    in    in
POST   oauth_register                 in    in    in    in    in
POST   oauth_token                    in    in    in    in    in
POST   oauth_revoke                   in    in    in    in    in
GET    login                          in    in    in    in    in
POST   login                          no    in    in    in    no
GET    openid_connect_login           in    in    in    in    in
GET    openid_connect_callback        in    in    in    in    in
GET    login_code                     in    in    in    in    in
POST   login_code                     no    in    in    in    no
POST   logout                         login in    in    in    login
GET    people                         login no    no    no    login
POST   people                         login no    no    no    login
GET    person                         login no    no    no    login
POST   person                         login no    no    no    login
POST   person_agents                  login no    no    no    login
POST   person_deactivate              login no    no    no    login
POST   person_reactivate              login no    no    no    login
POST   person_sign_out                login no    no    no    login
POST   person_staff_give              login no    no    no    login
POST   person_staff_take              login no    no    no    login
POST   person_second_factor_reset     login no    no    no    login
GET    second_factor_requirements     login no    no    no    login
POST   second_factor_requirements     login no    no    no    login
POST   invitation_revoke              login no    no    no    login
GET    invitation                     in    in    in    in    in
POST   invitation                     no    in    in    in    no
GET    account                        login in    in    in    login
POST   account                        login in    in    in    login
POST   account_sessions_end           login in    in    in    login
POST   account_provider               login in    in    in    login
GET    account_confirm                login in    in    in    login
POST   account_confirm                login in    in    in    login
GET    second_factor                  login in    in    in    login
POST   second_factor                  login in    in    in    login
POST   second_factor_remove           login in    in    in    login
POST   recovery_codes_renew           login in    in    in    login
GET    inbox                          login in    in    in    login
POST   inbox_bulk                     login no    in    in    login
GET    inbox_compare                  login in    in    in    login
POST   inbox_compare                  login no    in    in    login
GET    inbox_list                     login in    in    in    login
POST   inbox_undo                     login no    in    in    login
POST   inbox_filter_save              login in    in    in    login
POST   inbox_filter_delete            login in    in    in    login
POST   item_change                    login no    in    in    login
POST   demo_tour_leave                login in    in    in    login
POST   demo_tour_resume               login in    in    in    login
GET    notifications                  login in    in    in    login
POST   notifications_mark             login in    in    in    login
POST   account_mail                   login in    in    in    login
POST   account_name                   login in    in    in    login
GET    home                           login in    in    in    login
GET    usage                          login in    in    in    login
GET    agent_context                  login in    in    in    login
POST   agent_context                  login in    in    in    login
POST   agent_context_tokens           login in    in    in    login
GET    agent_playground               login no    in    in    login
POST   agent_playground               login no    in    in    login
GET    agent_playground_compare       login no    in    in    login
POST   agent_playground_compare       login no    in    in    login
GET    agent_context_run              login in    in    in    login
GET    agent_context_cause            login in    in    in    login
GET    agent_context_runs             login in    in    in    login
GET    agent_context_compare          login in    in    in    login
GET    agent_context_session          login in    in    in    login
GET    agent_context_bisect           login in    in    in    login
GET    agent_context_fingerprints     login in    in    in    login
GET    agent_context_blast            login in    in    in    login
POST   agent_context_blast            login in    in    in    login
GET    context_blast_proposals        login in    in    in    login
POST   context_blast_proposals        login in    in    in    login
GET    context_blast_questions        login in    in    in    login
POST   context_blast_questions        login in    in    in    login
GET    agent_context_settings         login no    no    in    login
POST   agent_context_settings         login no    no    in    login
GET    agent_consent                  login no    no    in    login
POST   agent_consent                  login no    no    in    login
POST   agent_context_settings_restore login no    no    in    login
GET    agent_expectations             login in    in    in    login
POST   agent_expectations             login no    in    in    login
POST   agent_expectations_check       login no    in    in    login
POST   agent_expectation_demand       login no    in    in    login
GET    agent_expectation              login in    in    in    login
POST   agent_expectation              login no    in    in    login
POST   agent_expectation_undo         login no    in    in    login
GET    agent_context_pins             login in    in    in    login
GET    agent_context_item             login in    in    in    login
POST   agent_context_item             login no    in    in    login
POST   agent_context_outcome          login no    in    in    login
POST   agent_context_profile          login no    no    in    login
GET    context_profiles               login in    in    in    login
GET    context_profile                login in    in    in    login
GET    context_profile_edit           login no    in    in    login
POST   context_profile_edit           login no    in    in    login
GET    context_profile_copy           login no    in    in    login
POST   context_profile_copy           login no    in    in    login
GET    context_profile_history        login in    in    in    login
GET    agent_facts                    login in    in    in    login
GET    agent_fact_add                 login no    in    in    login
POST   agent_fact_add                 login no    in    in    login
GET    agent_search                   login in    in    in    login
GET    agent_events                   login in    in    in    login
GET    agent_event                    login in    in    in    login
GET    agent_event_wrong              login no    in    in    login
POST   agent_event_wrong              login no    in    in    login
GET    agent_loop                     login in    in    in    login
GET    agent_fact                     login in    in    in    login
GET    agent_episodes                 login in    in    in    login
GET    agent_episode                  login in    in    in    login
GET    agent_decisions                login in    in    in    login
GET    agent_decision                 login in    in    in    login
GET    agent_documents                login in    in    in    login
GET    agent_document                 login in    in    in    login
GET    agent_procedures               login in    in    in    login
GET    agent_procedure                login in    in    in    login
GET    agent_censors                  login in    in    in    login
GET    agent_censor                   login in    in    in    login
GET    agent_censor_bench             login in    in    in    login
GET    agent_working                  login in    in    in    login
GET    agent_health                   login in    in    in    login
GET    agent_health_list              login in    in    in    login
POST   agent_health_bulk              login no    in    in    login
GET    agent_health_ledger            login in    in    in    login
GET    agent_index                    login in    in    in    login
POST   agent_censor_bench             login in    in    in    login
POST   agent_decision                 login no    in    in    login
POST   agent_document_change          login no    in    in    login
GET    agent_fact_change              login no    in    in    login
GET    agent_censor_add               login no    in    in    login
GET    agent_censor_edit              login no    in    in    login
GET    agent_fact_erase               login no    no    in    login
GET    agent_event_erase              login no    no    in    login
GET    agent_document_erase           login no    no    in    login
GET    agent_project_erase            login no    no    in    login
GET    agent_user_erase               login no    no    in    login
GET    agent_users                    login no    no    in    login
GET    agent_user                     login no    no    in    login
GET    agent_subject_erase            login no    no    in    login
GET    agent_imports                  login no    no    in    login
POST   agent_imports                  login no    no    in    login
GET    agent_import                   login no    no    in    login
GET    agent_import_state             login no    no    in    login
POST   agent_import_part              login no    no    in    login
POST   agent_import_change            login no    no    in    login
POST   agent_exports                  login no    no    in    login
GET    agent_export                   login no    no    in    login
GET    agent_export_state             login no    no    in    login
GET    agent_export_file              login no    no    in    login
POST   agent_export_change            login no    no    in    login
GET    agent_erase                    login no    no    in    login
POST   agent_fact_change              login no    in    in    login
POST   agent_censor_add               login no    in    in    login
POST   agent_censor_edit              login no    in    in    login
POST   agent_fact_erase               login no    no    in    login
POST   agent_event_erase              login no    no    in    login
POST   agent_document_erase           login no    no    in    login
POST   agent_project_erase            login no    no    in    login
POST   agent_user_erase               login no    no    in    login
POST   agent_users                    login no    no    in    login
POST   agent_subject_erase            login no    no    in    login
POST   agent_erase                    login no    no    in    login
POST   agent_censor_false_positive    login no    in    in    login
GET    agent_episode_edit             login no    in    in    login
POST   agent_episode_edit             login no    in    in    login
GET    agent_episode_close            login no    in    in    login
POST   agent_episode_close            login no    in    in    login
GET    agent_procedure_edit           login no    in    in    login
POST   agent_procedure_edit           login no    in    in    login
POST   agent_procedure_use            login no    in    in    login
POST   agent_index_retry              login no    in    in    login
GET    memory_review                  login in    in    in    login
GET    memory_review_detail           login in    in    in    login
POST   memory_review_detail           login no    in    in    login
GET    automatic_decisions            login in    in    in    login
POST   automatic_decisions_undo       login no    in    in    login
GET    agent_endings                  login in    in    in    login
GET    agent_document_expiry          login no    in    in    login
POST   agent_document_expiry          login no    in    in    login
GET    agent_supersessions            login in    in    in    login
POST   agent_supersession_undo        login no    in    in    login
GET    agent_subject                  login in    in    in    login
GET    agent_subjects                 login in    in    in    login
GET    agent_subject_thing            login in    in    in    login
GET    agent_subject_beside           login no    in    in    login
POST   agent_subject_add              login no    in    in    login
POST   agent_subject_change           login no    in    in    login
GET    lifecycle                      login in    in    in    login
POST   lifecycle_retry                login no    in    in    login
POST   lifecycle_schedule             login no    in    in    login
POST   lifecycle_screening            login no    in    in    login
GET    agents                         login in    in    in    login
GET    agent_new                      login no    no    in    login
POST   agent_new                      login no    no    in    login
GET    agent                          login in    in    in    login
GET    agent_settings                 login no    no    in    login
POST   agent_settings                 login no    no    in    login
GET    agent_initiate                 login no    no    in    login
POST   agent_initiate                 login no    no    in    login
GET    agent_identity                 login in    in    in    login
GET    section_history                login in    in    in    login
GET    section_compare                login in    in    in    login
GET    section_propose                login no    in    in    login
POST   section_propose                login no    in    in    login
POST   section_preview                login no    in    in    login
GET    section_rollback               login no    in    in    login
POST   section_rollback               login no    in    in    login
GET    agent_connect                  login in    in    in    login
POST   agent_connect                  login no    no    in    login
GET    agent_connect_state            login no    no    in    login
GET    agent_tokens                   login no    no    in    login
POST   agent_tokens                   login no    no    in    login
GET    agent_token_revoke             login no    no    in    login
POST   agent_token_revoke             login no    no    in    login
GET    agent_token_rotate             login no    no    in    login
POST   agent_token_rotate             login no    no    in    login
GET    oauth_authorize                login no    no    in    login
POST   oauth_authorize                login no    no    in    login
GET    oauth_clients                  login no    no    in    login
POST   oauth_clients                  login no    no    in    login
GET    oauth_client_delete            login no    no    in    login
POST   oauth_client_delete            login no    no    in    login
GET    agent_changes                  login in    in    in    login
GET    agent_webhooks                 login no    no    in    login
POST   agent_webhooks                 login no    no    in    login
GET    agent_webhook                  login no    no    in    login
POST   agent_webhook                  login no    no    in    login
GET    agent_webhook_edit             login no    no    in    login
POST   agent_webhook_edit             login no    no    in    login
GET    agent_webhook_delete           login no    no    in    login
POST   agent_webhook_delete           login no    no    in    login
GET    search                         login in    in    in    login
GET    styleguide                     login in    in    in    login
GET    review                         login in    in    in    login
GET    proposal                       login in    in    in    login
POST   proposal_preview               login in    in    in    login
POST   proposal                       login no    in    in    login
GET    audit                          login in    in    in    login
GET    audit_event                    login in    in    in    login
GET    integrity                      login in    in    in    login
GET    integrity_state                login in    in    in    login
POST   integrity_verify               login in    in    in    login
"""
FORMS = {
    "agent_context_item": {"action": "pin"},
    "section_propose": {"content": "Care.", "base_version": "1"},
    "proposal": {"action": "approve"},
    "agent_health_bulk": {"action": "invalidate"},
}


def table_of(rows):
    """Rows as they stand in the tables above, in any order and without their spaces."""
    return sorted(" ".join(row) for row in rows)


def rows_in(table):
    return [line.split() for line in table.strip().splitlines()]


def endpoints():
    paths = the_api.get_openapi_schema()["paths"]
    return [f"{method.upper()} {path}" for path, operations in paths.items() for method in operations]


def pages():
    """The name of every address beside API, MCP and admin, which guard themselves and have tests of their own."""

    def walk(patterns, prefix=""):
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if route.startswith(("api/", "mcp", "admin/")):
                continue
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            else:
                yield pattern.name or route

    return list(walk(get_resolver().url_patterns))


class World:
    """Ada with something to look at behind every address."""

    def __init__(self, request):
        self.request = request
        ada = request.getfixturevalue("ada")
        by = request.getfixturevalue("actor")
        bob = Principal.of_user(request.getfixturevalue("bob"))
        self.pending = identity_propose(agent=ada, section="values", content="Truth.", by=by).proposal
        self.decided = identity_propose(agent=ada, section="boundaries", content="None.", by=by).proposal
        self.batch = uuid4()
        proposal_reject(proposal=self.decided, by=bob, batch=self.batch)
        proposal = identity_propose(agent=ada, section="protocols", content="Check.", by=by, wait=True).proposal
        proposal_approve(proposal=proposal, by=bob)
        self.fact = fact_learn(agent=ada, content="Tim is a pilot.", by=by).fact
        fact_learn(agent=ada, content="Tim lives in Rome.", subject="Tim", by=by)
        fact_learn(agent=ada, content="Tim lives in Oslo.", subject="Tim", by=by)
        fact_learn(agent=ada, content="Tim's twin is Ann.", subject="Tim", by=by)
        self.review = fact_learn(agent=ada, content="Tim's twin is Eva.", subject="Tim", by=by).review
        self.retried = job_queue("test", agent=ada, persona="actor", subject=ada)
        self.token = ApiToken.objects.get(agent=ada, name="actor")
        told = ApiClient().as_token(request.getfixturevalue("actor_token")).post("/events", EVENTS)
        self.event = str(told.json()["events"][0]["id"])
        asked = ApiClient().as_token(request.getfixturevalue("actor_token")).post(
            "/context", {"session_id": "s", "input": "?"}
        )  # fmt: skip
        self.run = asked.json()["id"]
        mind = {"agent": ada, "session_id": "s", "text": "Sail.", "by": by}
        self.keys = {
            "episode_id": episode_open(agent=ada, by=by).pk,
            "decision_id": decision_record(agent=ada, description="Sail.", by=by).pk,
            "document_id": document_put(
                agent=ada, namespace=["notes"], key="sea", value={"text": "Sail."}, by=by
            ).document.pk,
            "procedure_id": procedure_create(agent=ada, name="Sail", by=by).pk,
            "censor_id": censor_create(agent=ada, pattern="sail", by=by).pk,
            "review_id": self.review,
            "expectation_id": expectation_create(
                agent=ada, request=request_of("?"), requirement="present", target="section", section="frame", by=bob
            ).pk,
            "subject_id": Subject.objects.get(name="Tim").pk,
            "webhook_id": webhook_create(
                agent=ada, url="https://example.org/", scopes=["memory:read"], by=Principal.of_system("tests")
            )[0].pk,
            "import_id": import_create(
                agent=ada, file_name="a.jsonl", file_bytes=9, by=Principal.of_user(request.getfixturevalue("charlie"))
            ).pk,
            "export_id": export_start(agent=ada, by=Principal.of_user(request.getfixturevalue("charlie"))).pk,
            "session_id": "s",
            "item_id": working_item_add(**mind).item["id"],
            "thread_id": working_thread_open(**mind)[1]["id"],
        }
        self.client = oauth_client_register(name="Desk", redirect_uris=["http://127.0.0.1/"], address="127.0.0.1")
        self.connection = {
            "response_type": "code", "client_id": self.client.client_id, "redirect_uri": "http://127.0.0.1/",
            "code_challenge": "x" * 43, "code_challenge_method": "S256",
        }  # fmt: skip
        self.secrets = {
            "token": request.getfixturevalue("actor_token"),
            "everything": request.getfixturevalue("all_scopes_token"),
            "other": request.getfixturevalue("other_token"),
            "revoked": request.getfixturevalue("revoked_token"),
            "expired": request.getfixturevalue("expired_token"),
        }
        root = User.objects.create_superuser("root", password="long enough for one")
        owner = Principal.of_user(root)
        self.people = {"secret": invitation_create(role="Viewer", by=owner)[1], "person": root.pk}
        self.browsers = {name: signed_in(request.getfixturevalue(name)) for name in ("alice", "bob", "charlie")}

    def path(self, template):
        filled = template.removeprefix("/api").replace("{section}", "protocols")
        filled = (
            filled.replace("{type}/{memory_id}", f"fact/{self.fact.pk}")
            .replace("{fact_id}", str(self.fact.pk))
            .replace("{proposal_id}", str(self.pending.pk))
        )
        filled = filled.replace("{event_id}", self.event).replace("{loop_id}", "loop-1").replace("{run_id}", self.run)
        for name, key in self.keys.items():
            filled = filled.replace(f"{{{name}}}", str(key))
        assert "{" not in filled, f"say what stands for the parameters of {template}"
        return filled

    @functools.cache  # noqa: B019
    def url(self, name):
        if name in ("healthz", "readyz", "metrics"):
            return f"/{name}"
        if name == "oauth_authorize":
            return f"{reverse(name)}?{urlencode(self.connection)}"
        known = {
            "slug": "ada", "profile_slug": "knight_default", "section": "protocols", "version": 1,
            "batch": self.batch, "pk": self.pending.pk,
        } | {
            "agent_context_item": {"item_type": "fact", "item_id": str(self.fact.pk)},
            "agent_context_outcome": {"pk": self.run},
            "oauth_client_delete": {"pk": self.client.pk},
            "agent_token_revoke": {"pk": self.token.pk}, "agent_token_rotate": {"pk": self.token.pk},
            "agent_connect_state": {"pk": self.token.pk},
            "audit_event": {"pk": AuditEvent.objects.latest("id").pk},
            "agent_context_run": {"pk": self.run}, "agent_context_bisect": {"pk": self.run},
            "agent_context_cause": {"pk": self.run},
            "inbox_filter_delete": {"pk": 1},
            "agent_health_list": {"finding": "stale"}, "agent_health_bulk": {"finding": "stale"},
            "agent_user": {"user": "mia"},
            "agent_subject": {"subject": "Tim"}, "agent_subject_thing": {"pk": self.keys["subject_id"]},
            "agent_subject_beside": {"pk": self.keys["subject_id"]},
            "agent_subject_change": {"pk": self.keys["subject_id"], "change": "edit"},
            "lifecycle_retry": {"pk": self.retried.pk},
            "lifecycle_schedule": {"pk": Schedule.objects.earliest("pk").pk},
            "agent_supersession_undo": {"pk": FactChange.objects.filter(action="superseded").latest("pk").pk},
            "invitation": {"secret": self.people["secret"]}, "invitation_revoke": {"pk": uuid4()},
            **{
                name: {"pk": self.people["person"]}
                for name in (
                    "person", "person_agents", "person_deactivate", "person_reactivate", "person_sign_out",
                    "person_second_factor_reset", "person_staff_give", "person_staff_take",
                )
            },
            "agent_event": {"pk": self.event}, "agent_event_wrong": {"pk": self.event},
            "agent_event_erase": {"pk": self.event},
            "agent_loop": {"loop_id": "loop-1"},
        }.get(name, {})  # fmt: skip
        memories = {"agent_fact": self.fact.pk, "memory_review_detail": self.review} | {
            f"agent_{key[:-3]}": pk for key, pk in self.keys.items()
        }
        memory = next((pk for prefix, pk in memories.items() if name == prefix or name.startswith(f"{prefix}_")), None)
        known |= {"change": "confirm"} | ({"pk": memory} if memory else {})
        if name in ("item_change", "inbox_compare"):
            known |= {"item_type": "changeproposal", "change": "skip"}
        pattern = next(key for key in get_resolver().reverse_dict if key == name)
        _, parameters = get_resolver().reverse_dict.getlist(pattern)[0][0][0]
        return reverse(name, kwargs={parameter: known[parameter] for parameter in parameters})

    def person(self, name):
        """A browser of this person that nothing has touched yet."""
        client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        client.cookies.load({key: morsel.value for key, morsel in self.browsers[name].cookies.items()})
        return client


@pytest.fixture
def world(request, bruno):
    return World(request)


def test_access_table_covers_every_endpoint():
    assert sorted(f"{row[0]} {row[1]}" for row in rows_in(API)) == sorted(endpoints())


def test_access_to_each_endpoint(world):
    seen = []
    for endpoint in endpoints():
        method, template = endpoint.split()
        query = {"agent": "ada"} | QUERIES.get(template, {})
        statuses = []
        for caller in CALLERS:
            client = ApiClient()
            if caller in world.secrets:
                client = client.as_token(world.secrets[caller])
            elif caller in world.browsers:
                client = ApiClient({"X-CSRFToken": ""}, world.person(caller))
            with transaction.atomic():
                answer = client.request(method, world.path(template), body=BODIES.get(endpoint, {}), query=query)
                transaction.set_rollback(True)
            statuses.append(str(answer.status_code))
        seen.append([method, template, *statuses])
    assert table_of(seen) == table_of(rows_in(API))


def test_csrf_token_is_needed_for_every_change_by_a_person(world):
    for endpoint in endpoints():
        method, template = endpoint.split()
        if method == "GET":
            continue
        client = ApiClient({}, world.person("charlie"))
        body = BODIES.get(endpoint, {})
        answer = client.request(method, world.path(template), body=body, query={"agent": "ada"})
        assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed"), endpoint


def test_access_table_covers_every_page():
    assert {row[1] for row in rows_in(PAGES)} == set(pages())


def outcome(answer):
    if answer.status_code in (301, 302) and answer["Location"].startswith("/login/?next="):
        return "login"
    assert answer.status_code < 500
    return {403: "no", 405: "405", 401: "401"}.get(answer.status_code, "in")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_access_to_each_page(world, method, monkeypatch):
    if method == "GET":
        # Who gets in is known before a page is drawn, which takes longest; test_viewers.py and the tests in a browser
        # draw each for those who do.
        monkeypatch.setattr("django.template.backends.django.Template.render", lambda *_: "")
    seen = []
    for name in pages():
        outcomes = []
        for visitor in VISITORS:
            client, headers = Client(enforce_csrf_checks=True, raise_request_exception=False), {}
            if visitor in world.secrets:
                headers["Authorization"] = f"Bearer {world.secrets[visitor]}"
            elif visitor in world.browsers:
                client = world.person(visitor)
                headers["X-CSRFToken"] = client.cookies["csrftoken"].value
            with transaction.atomic():
                send = client.post if method == "POST" else client.get
                answer = send(world.url(name), FORMS.get(name, {}) if method == "POST" else None, headers=headers)
                transaction.set_rollback(True)
            # Below /api no form is taken, so none is a way into the reference, which is only read.
            unread = name.startswith("api_") and answer.status_code == 415
            outcomes.append("405" if unread else outcome(answer))
        if "405" in outcomes:
            # Not offered to those who may knock, so it is offered to nobody.
            assert set(outcomes) <= {"405", "login", "no"}, name
            assert (method, name) not in {(row[0], row[1]) for row in rows_in(PAGES)}
            continue
        seen.append([method, name, *outcomes])
    assert table_of(seen) == table_of(row for row in rows_in(PAGES) if row[0] == method)


def test_agents_that_a_person_may_not_see_do_not_exist_for_them(world, bruno):
    """Charlie, limited to Bruno, at every address of Ada's and on every page that lists what several agents have."""
    charlie, owner = world.request.getfixturevalue("charlie"), User.objects.get(username="root")
    person_agents_set(person=charlie, agents=[bruno], by=Principal.of_user(owner))
    refused = {f"{row[0]} {row[1]}": row[5] == "403" for row in rows_in(API)}
    answered = []
    for endpoint in endpoints():
        method, template = endpoint.split()
        client = ApiClient({"X-CSRFToken": ""}, world.person("charlie"))
        query = {"agent": "ada"} | QUERIES.get(template, {})
        answer = client.request(method, world.path(template), body=BODIES.get(endpoint, {}), query=query)
        if answer.status_code != 404 and not (refused[endpoint] and answer.status_code == 403):
            answered.append((endpoint, answer.status_code))
    assert answered == []
    named, shown = [], 0
    for name in sorted(set(pages())):
        url = world.url(name)
        for method in ("GET", "POST"):
            client = world.person("charlie")
            headers = {"X-CSRFToken": client.cookies["csrftoken"].value}
            with transaction.atomic():
                send = client.post if method == "POST" else client.get
                answer = send(url, FORMS.get(name, {}) if method == "POST" else None, headers=headers)
                transaction.set_rollback(True)
            if "/ada/" in url:
                named += [(method, name, answer.status_code)] if answer.status_code not in (403, 404, 405) else []
            elif not name.startswith(("api_", "metrics")) and answer.status_code == 200:
                # The documentation of the API calls its example Ada.
                shown += 1
                named += [(method, name)] if re.search(r"\bada\b|/ada/", markup(answer), re.IGNORECASE) else []
    assert named == []
    assert shown > 15
    client = world.person("charlie")
    assert 'class="count"' not in markup(client.get("/")), "what waits for Ada is not counted"
    assert "Bruno" in markup(client.get("/agents/"))
    for address in (f"/search/?q={world.fact.pk}", "/search/?q=Tim", "/search/?q=ada", f"/review/{world.pending.pk}/"):
        assert not re.search("Ada|/ada/|pilot", markup(client.get(address))), address
    person_agents_set(person=charlie, agents=[], by=Principal.of_user(owner))
    assert client.get("/").status_code == 200
    assert "Bruno" not in markup(client.get("/agents/")) + markup(client.get("/"))
    person_agents_set(person=charlie, agents=None, by=Principal.of_user(owner))
    assert client.get("/agents/ada/identity/").status_code == 200
    trail = AuditEvent.objects.filter(action="user.agents").order_by("pk")
    assert [one.after["agents"] for one in trail] == [["bruno"], [], "all"]


def test_admin_access_is_for_operators_alone(world):
    """Administrator is a role of the console; the stock admin asks for Django's own staff flag."""

    def names(patterns):
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                yield from names(pattern.url_patterns)
            elif pattern.name and "<" not in str(pattern.pattern):
                yield pattern.name

    admin = next(pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "admin/")
    # The password is changed on the page of one's account, which asks for a log-in itself.
    assert Client().get(reverse("admin:password_change"))["Location"] == reverse("account")
    guarded = sorted(set(names(admin.url_patterns)) - {"login", "logout", "password_change"})
    assert "identity_agent_changelist" in guarded
    for name in guarded:
        url = reverse(f"admin:{name}")
        for visitor in ("nobody", "alice", "bob", "charlie", "everything"):
            client, headers = Client(raise_request_exception=False), {}
            if visitor == "everything":
                headers = {"Authorization": f"Bearer {world.secrets[visitor]}"}
            elif visitor != "nobody":
                client = world.person(visitor)
            answer = client.get(url, headers=headers)
            assert answer.status_code in (302, 405), (name, visitor)
            assert answer.status_code == 405 or answer["Location"].startswith("/admin/login/"), (name, visitor)


def test_openapi_document_is_public(world):
    answer = ApiClient().get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["info"]["title"] == "Nous Web"
